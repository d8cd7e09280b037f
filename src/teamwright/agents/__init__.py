"""Agents: models, functions and scripts, with their context, tools, policies and limits.

Names load on first use, so that importing the package costs next to nothing.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
