"""The repository that members work on, and the program."""

from tests.kit.coders import repository
from tests.kit.terminal import call

__all__ = ["call", "repository"]
