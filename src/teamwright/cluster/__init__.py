"""Many machines: runs are queued in Postgres, and workers on any machine drive them; the extra `cluster`.

The package is optional: its commands import it when they are called. Names load on first use.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
