"""Journals, which record runs: the protocol, the built-in journals, and the parts for a journal of your own.

Names load on first use, so that importing the package is cheap.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
