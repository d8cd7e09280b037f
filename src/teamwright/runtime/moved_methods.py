"""Methods of `Engine` that moved to `engine.runs`; the old names warn, and work for one version."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from teamwright.runtime.runs import Runs

P = ParamSpec("P")
R = TypeVar("R")


class _HasRuns(Protocol):
    runs: Runs


class MovedToRuns(Generic[P, R]):
    """A method under its old name, with the signature of the new one."""

    def __init__(self, method: Callable[Concatenate[Runs, P], R]) -> None:
        self._method = method

    def __get__(self, engine: _HasRuns | None, owner: type | None = None) -> Callable[P, R]:
        if engine is None:  # accessed on the class, as documentation tools do
            return cast("Callable[P, R]", self._method)
        name = self._method.__name__
        warnings.warn(f"engine.{name}() has moved: use engine.runs.{name}()", DeprecationWarning, stacklevel=2)
        return partial(self._method, engine.runs)
