"""Expert teams: an optional package. Nothing outside imports it; it registers itself by entry points."""

from teamwright._lazy import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
