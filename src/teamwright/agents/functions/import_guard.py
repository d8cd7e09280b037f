"""Whether code that a manifest names is loaded. Commands that only read a manifest must not run any of it.

The guard stands where code is imported, so that no path around it exists.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from teamwright.errors import UsageError

_LOADS: ContextVar[bool] = ContextVar("teamwright_loads_code", default=True)


def loads_code() -> bool:
    """Whether functions, tools and strategies of others are imported here."""
    return _LOADS.get()


@contextmanager
def code_not_loaded() -> Generator[None]:
    """Within this block nothing is imported: what a manifest names as code is represented by stand-ins."""
    before = _LOADS.set(False)
    try:
        yield
    finally:
        _LOADS.reset(before)


class UnloadedFunction:
    """Stands for a function that was not imported; calling it is refused."""

    def __init__(self, path: str) -> None:
        self.path = path
        module, _, name = path.partition(":")
        self.__module__, self.__name__, self.__qualname__ = module, name.rpartition(".")[2], name

    def __call__(self, turn: object) -> object:
        """Refuse: its code was never loaded."""
        raise UsageError(f"{self.path!r} was not loaded, so it can't be called.")
