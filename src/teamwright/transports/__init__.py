"""Transports, which carry wake-ups and live text of runs: the contract, and the transport of one process.

Names load on first use, so that importing the package is cheap.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
