"""Decides whether code that a manifest names is imported: commands that only read a manifest must not run any.

Every import of such code checks the guard, so that there is no way around it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from teamwright.errors import UsageError

_LOADS: ContextVar[bool] = ContextVar("teamwright_loads_code", default=True)


def can_load_code() -> bool:
    """Whether functions, tools and strategies from outside the package may be imported here."""
    return _LOADS.get()


@contextmanager
def code_not_loaded() -> Generator[None]:
    """Within this block, use placeholders for the code that a manifest names instead of importing it."""
    before = _LOADS.set(False)
    try:
        yield
    finally:
        _LOADS.reset(before)


class UnloadedFunction:
    """A placeholder for a function that was not imported; calling it raises `UsageError`."""

    def __init__(self, path: str) -> None:
        self.path = path
        module, _, name = path.partition(":")
        self.__module__, self.__name__, self.__qualname__ = module, name.rpartition(".")[2], name

    def __call__(self, turn: object) -> object:
        """Raise `UsageError`: the code was never loaded."""
        raise UsageError(f"{self.path!r} was not loaded, so it can't be called.")
