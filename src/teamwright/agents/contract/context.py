"""The context protocol, the only way in which agents and strategies reach the outside world.

Agents and strategies must use clocks, randomness, models, tools, people and other members only through it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from pydantic import JsonValue

from teamwright.agents.contract.effect import Effect, Returned
from teamwright.values.events.event import Fact
from teamwright.values.limits import Cutback, Limits
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer, Question, TeamChange, Tell
from teamwright.values.turns.artifacts import Artifact, SharedValue
from teamwright.values.turns.turn import Failure, Reply, Turn

if TYPE_CHECKING:
    from teamwright.agents.contract.agent import Agent  # which receives a context


class AppliedChange(NamedTuple):
    """A change that takes effect now; `agent` is a member that joins."""

    change: TeamChange | Tell
    agent: Agent | None = None


ApplyChange = Callable[[AppliedChange], str | None]
"""Carries out a change, or returns why that is impossible now."""
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Context(Protocol):
    """The operations that an agent or a strategy may perform."""

    @property
    def clock(self) -> Clock: ...

    @property
    def workspace(self) -> Workspace: ...

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure:
        """Ask a member and return its reply, or a `Failure` if it fails."""
        ...

    def effect(self, key: str, effect: Effect) -> Awaitable[Returned]:
        """Make one call to the outside world; the call and its result are recorded, and replays use the record."""
        ...

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        """Ask a person and wait for the answer, however long it takes and across processes."""
        ...

    async def changes(self, *, before: str, apply: ApplyChange, messages: bool = False) -> Sequence[AppliedChange]:
        """Let `apply` carry out what people want changed before the next of this scope: an ask, or a fact about the
        plan of the team, with the key `before`. Returns what was carried out.

        A change for which it returns a reason is refused, and must not have changed anything. With `messages` it also
        gets each message to all members or to the lead, once, so that a lead can plan again; members read it anyway.
        Only the outermost team of a run is changed, and only as the `interventions` of its strategy allow. Call this
        once for each key. A replay carries out the same changes at the same key.
        """
        ...

    @property
    def cutback(self) -> Cutback:
        """What the team cuts back now because its budget is tight. Read it where you need it: it changes in a run."""
        ...

    @property
    def owned(self) -> Owned:
        """The keys that the enclosing steps own: `owned.may_write(path)` says whether a tool may write there."""
        ...

    def scope(
        self,
        name: str,
        limits: Limits | None = None,
        owns: Collection[str] | None = None,
        priority: int = 0,
        *,
        working: bool = False,
    ) -> AbstractAsyncContextManager[Context]:
        """Open a named part of the work with limits of its own; raises `AgentTimeout` when its time is used up.

        Time in which everything inside waits for people does not count; with `working`, neither does time in which it
        waits for providers: for a rate limit, or before a retry.

        A scope with `owns` waits until no other scope of the run owns an overlapping key, and holds all its keys until
        it ends; among waiting scopes, the highest priority goes first. With an empty `owns` it may write nothing.
        Within another owning scope it may own only keys of that scope: raises `NotOwned` otherwise.
        """
        ...

    def branches(self, limit: int, *, until: Callable[[], bool] | None = None) -> AbstractAsyncContextManager[Branches]:
        """Run named branches concurrently, at most `limit` at once.

        `until` is called whenever a branch has ended; once it returns true, the unfinished branches are cancelled.
        """
        ...

    async def emit(self, fact: Fact, *, key: str | None = None) -> None:
        """Record a fact. Facts of concurrent work need a `key`, since their order may change on a replay."""
        ...


class Workspace(Protocol):
    """The data that a run shares: versioned values, results, and artifacts that are stored once.

    A strategy sees every write so far; an agent sees a snapshot from the start of its turn, and its own writes.
    """

    @property
    def run_id(self) -> str:
        """The id of the run."""
        ...

    @property
    def task(self) -> str:
        """The task of the run."""
        ...

    def names(self) -> list[str]: ...

    def get(self, name: str) -> SharedValue | None:
        """Return a value with its version, or `None`."""
        ...

    def result(self, key: str) -> Reply | Failure | None:
        """Return the result of an earlier ask of this team, by its key."""
        ...

    async def put(self, name: str, value: JsonValue, *, version: int | None = None, key: str | None = None) -> int:
        """Write a value and return its new version; raises `StaleWrite` unless `version` is the current one."""
        ...

    async def keep(
        self, content: str | bytes, *, name: str = "", media_type: str | None = None, key: str | None = None
    ) -> Artifact:
        """Store content once as an artifact, and return a pointer to it."""
        ...

    async def open(self, artifact: Artifact | str) -> str | bytes:
        """Return the content of an artifact, by a pointer or by one from an envelope; for agents only."""
        ...


class Branches(Protocol):
    """Named branches of one scope. Leaving the block waits for all of them."""

    def start(self, name: str, work: Callable[[Context], Awaitable[T]]) -> Branch[T]:
        """Start a branch with its own context; it begins when the limit allows."""
        ...

    def finished(self) -> AsyncIterator[Branch[object]]:
        """Yield branches as they finish, in an order that a resumed run repeats."""
        ...

    def cancel(self) -> None:
        """Cancel every unfinished branch."""
        ...


class Branch(Protocol[T_co]):
    """One branch, and its result once it has finished."""

    @property
    def name(self) -> str: ...

    @property
    def cancelled(self) -> bool: ...

    def result(self) -> T_co:
        """Return the result of the branch; raises its exception, or `LookupError` if it did not finish."""
        ...


class Clock(Protocol):
    """Time and randomness that a resumed run repeats exactly."""

    def now(self) -> float:
        """Seconds since the epoch, as of the last event that the run received."""
        ...

    def random(self) -> float:
        """A random number from 0 up to, but not including, 1."""
        ...

    def new_id(self) -> str:
        """An id that is unique within the run."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep; after a crash, a resumed run sleeps only the remaining time."""
        ...
