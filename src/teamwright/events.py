"""Facade of the events that a run records. Match them by type: `match event.fact: case AgentReplied(): …`.

Names load on first use, so importing the module is cheap.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
