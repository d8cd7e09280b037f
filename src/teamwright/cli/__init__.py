"""The command line: prints events and results. It reads and drives runs and never records anything itself."""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
