"""What a page shows of a run: page events, the prompts of turns, and the run as one file. Nothing here drives a run.

Names load on first use, so that importing the package is cheap.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
