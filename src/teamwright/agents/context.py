"""The contract of contexts: the one door through which agents and strategies reach the world.

Agents and strategies must reach clocks, randomness, models, tools, people and other members only through it. A context
asks agents and an agent is given a context, so the least of an agent is declared here too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar, runtime_checkable

from pydantic import JsonValue

from teamwright.agents.effect import Effect, Returned
from teamwright.values.events.event import Fact
from teamwright.values.limits.degradation import Cutback
from teamwright.values.limits.limits import Limits
from teamwright.values.owned_paths import Owned
from teamwright.values.people.questions import Answer, Question
from teamwright.values.turns.artifacts import Artifact, SharedValue
from teamwright.values.turns.turn import Failure, Reply, Turn

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class AgentLike(Protocol):
    """The least that a member of a team needs. What else `Agent` declares gets the default that stands there.

    It stands apart from `Agent` because a policy refers to other agents.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn, or raise an `AgentError`."""
        ...


class Context(Protocol):
    """All that an agent or a strategy may do."""

    @property
    def clock(self) -> Clock: ...

    @property
    def workspace(self) -> Workspace: ...

    async def ask(self, member: AgentLike, turn: Turn, *, key: str) -> Reply | Failure:
        """Let a member take its turn; a member that fails is a value, not an exception."""
        ...

    def effect(self, key: str, effect: Effect) -> Awaitable[Returned]:
        """Touch the world once: recorded before it leaves and when it returns, never repeated once recorded."""
        ...

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        """Ask a person and wait for as long as it takes, across processes."""
        ...

    @property
    def cutback(self) -> Cutback:
        """What the team cuts back now because its budget is tight. Read it where you need it: it changes in a run."""
        ...

    @property
    def owned(self) -> Owned:
        """What the steps around this one own: `owned.may_write(path)` says whether a tool may write there."""
        ...

    def scope(
        self, name: str, limits: Limits | None = None, owns: Collection[str] | None = None, priority: int = 0
    ) -> AbstractAsyncContextManager[Context]:
        """A named part of the work, with limits of its own; raises `AgentTimeout` when its time is used up.

        One that `owns` keys waits until no other scope of the run owns one that overlaps them, and holds them all to
        its end; of those that wait, the highest priority goes first. With no keys at all it may write nothing. Within
        an owning scope it may own only part of that: raises `NotOwned` otherwise.
        """
        ...

    def branches(self, limit: int, *, until: Callable[[], bool] | None = None) -> AbstractAsyncContextManager[Branches]:
        """Run named branches side by side, at most `limit` at once.

        `until` is looked at whenever one has ended; once it holds, those that have not finished are stopped.
        """
        ...

    async def emit(self, fact: Fact) -> None:
        """Record something worth knowing; nothing ever flows back."""
        ...


class Workspace(Protocol):
    """What a run shares: values with versions, results, and artifacts that are stored once.

    A strategy sees all that has reached the run; an agent sees what there was when its turn began, and its own writes.
    """

    @property
    def run_id(self) -> str:
        """The run that it belongs to."""
        ...

    @property
    def task(self) -> str:
        """What the run was asked to do."""
        ...

    def names(self) -> list[str]: ...

    def get(self, name: str) -> SharedValue | None:
        """A value with its version, or nothing."""
        ...

    def result(self, key: str) -> Reply | Failure | None:
        """What came of an earlier ask of this team, by its key."""
        ...

    async def put(self, name: str, value: JsonValue, *, version: int | None = None, key: str | None = None) -> int:
        """Write a value and return its new version; raises `StaleWrite` unless `version` is what stands there."""
        ...

    async def keep(
        self, content: str | bytes, *, name: str = "", media_type: str | None = None, key: str | None = None
    ) -> Artifact:
        """Store something large once, and return a pointer to it."""
        ...

    async def open(self, artifact: Artifact | str) -> str | bytes:
        """The content behind a pointer, also one in an envelope; for agents only."""
        ...


class Branches(Protocol):
    """Named branches of one scope. Leaving the block waits for all of them."""

    def start(self, name: str, work: Callable[[Context], Awaitable[T]]) -> Branch[T]:
        """Start a branch; it gets a context of its own, and begins when there is room."""
        ...

    def finished(self) -> AsyncIterator[Branch[object]]:
        """Branches as they finish, in an order that a resumed run repeats."""
        ...

    def cancel(self) -> None:
        """Stop every branch that has not finished."""
        ...


class Branch(Protocol[T_co]):
    """One branch, and its result once it has finished."""

    @property
    def name(self) -> str: ...

    @property
    def cancelled(self) -> bool: ...

    def result(self) -> T_co:
        """What the branch returned; raises what it raised, or `LookupError` when it did not finish."""
        ...


class Clock(Protocol):
    """Time and chance that a resumed run repeats exactly."""

    def now(self) -> float:
        """Seconds since the epoch, as of the last thing that reached this run."""
        ...

    def random(self) -> float:
        """A number from 0 up to 1."""
        ...

    def new_id(self) -> str:
        """An id that is unique within the run."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a crash in the middle does not start the wait again."""
        ...
