"""Facade of the engine: `Engine`, the handle of a run, recorded runs, transports, and functions without async.

Names load on first use, so importing the module is cheap.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
