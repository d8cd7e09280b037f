"""The objects that the caller gave the engine for its tools, such as a database or a client, found by their type."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar, cast, runtime_checkable

from teamwright.agents.contract.agent import Agent
from teamwright.errors import MissingDependency, UsageError

T = TypeVar("T")

WITH_TOOLS = ("model", "scripted")
"""The kinds of agents that have tools."""


class DeclaredNeeds(Protocol):
    """The tools of an agent."""

    @property
    def needs(self) -> tuple[type, ...]: ...


@runtime_checkable
class ToolUser(Protocol):
    """An agent with tools."""

    @property
    def toolbox(self) -> DeclaredNeeds: ...


class Dependencies:
    """One object of each type."""

    def __init__(self, objects: Sequence[object] = ()) -> None:
        self._by_type: dict[type, object] = {}
        for one in objects:
            if isinstance(one, type):
                raise UsageError(f"Dependencies are objects, and {one.__name__!r} is a class; pass {one.__name__}(…).")
            if type(one) in self._by_type:
                raise UsageError(f"There are two dependencies of the type {type(one).__name__!r}; pass one of them.")
            self._by_type[type(one)] = one

    def get(self, kind: type[T]) -> T:
        """Return the object of this type, or of the one subtype; raises `MissingDependency`."""
        found = [self._by_type[kind]] if kind in self._by_type else self._of_subtype(kind)
        if len(found) != 1:
            raise MissingDependency(kind.__name__, [one.__name__ for one in self._by_type], ambiguous=len(found) > 1)
        return cast("T", found[0])

    def _of_subtype(self, kind: type) -> list[object]:
        return [one for one in self._by_type.values() if isinstance(one, kind)]

    def require(self, agents: Iterable[Agent]) -> None:
        """Raise `UsageError` if the tools of these agents declare a type that is missing."""
        for agent in agents:
            if agent.kind in WITH_TOOLS and isinstance(agent, ToolUser):
                for kind in agent.toolbox.needs:
                    try:
                        self.get(kind)
                    except MissingDependency as error:
                        raise UsageError(f"{agent.name!r}: {error}") from error

    @contextmanager
    def shared(self) -> Generator[None]:
        """Within this block, tools find these objects."""
        token = _SHARED.set(self)
        try:
            yield
        finally:
            _SHARED.reset(token)


_SHARED: ContextVar[Dependencies | None] = ContextVar("dependencies", default=None)
NO_DEPENDENCIES = Dependencies()


def shared_dependencies() -> Dependencies:
    """The dependencies of the engine that runs the current task."""
    return _SHARED.get() or NO_DEPENDENCIES
