"""Guests: agents of other frameworks as members of our teams, under our budgets, records and deadlines.

Names load on first use, and a framework is imported only where its guest is used.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
