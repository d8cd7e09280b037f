"""Teamwright runs teams of AI agents as dependable software.

These names are what a first program needs. The rest is in `teamwright.agents`, `.strategies`, `.plans`, `.events`,
`.people`, `.engine`, `.history`, `.journal`, `.testing` and `.errors`, and in the wings that are installed. Every other
module is private and may move. Names load on first use, so importing the package is cheap.
"""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
