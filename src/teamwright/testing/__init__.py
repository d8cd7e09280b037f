"""Test tools: cases as tests of pytest, conformance suites for third-party parts, and a model server on loopback.

Names load on first use, so that importing the package costs next to nothing.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
