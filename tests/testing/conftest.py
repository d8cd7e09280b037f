"""The team of two whose runs become cases."""

from tests.kit.terminal import call, team

__all__ = ["call", "team"]
