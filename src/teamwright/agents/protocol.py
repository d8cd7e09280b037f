"""The two contracts that everything else is made of: `Agent`, which answers, and `Context`, the one door to the world.

Agents and strategies must reach clocks, randomness, models, tools, people and other members only through the context.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar, runtime_checkable

from msgspec import Struct
from pydantic import JsonValue

from teamwright.budget.money import Rate
from teamwright.values.artifacts import Artifact, Held
from teamwright.values.degradation import Posture
from teamwright.values.events.event import EffectKind, Fact, ValueForm
from teamwright.values.limits import Limits, Pace, RetryPolicy
from teamwright.values.messages import digest
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer, Question
from teamwright.values.reply_limits import MAX_BYTES
from teamwright.values.turns import Failure, Reply, Turn
from teamwright.values.usage import NOTHING, Usage

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@runtime_checkable
class Agent(Protocol):
    """Anything that answers: a model, a function, a script, a person, a team.

    Where it has them, `one_call` says that its whole turn is one effect, `limits` bound each of its turns, `approve`
    says where a person has to agree, `can_terminate` that it may end a team, `optional` that a failure of it is skipped
    and `critical` that one pauses the run, `capabilities` are what it is found by, and from `spec` it is made again on
    a resume.
    """

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str:
        """What sort of agent it is: model, function, scripted, team …"""
        ...

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Answer the turn, or raise an `AgentError`."""
        ...


class Context(Protocol):
    """All that an agent or a strategy may do."""

    @property
    def clock(self) -> Clock: ...

    @property
    def workspace(self) -> Workspace: ...

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure:
        """Let a member take its turn; a member that fails is a value, not an exception."""
        ...

    def effect(self, key: str, effect: Effect) -> Awaitable[Returned]:
        """Touch the world once: recorded before it leaves and when it returns, never repeated once recorded."""
        ...

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        """Ask a person and wait for as long as it takes, across processes."""
        ...

    @property
    def posture(self) -> Posture:
        """How freely the team may work now; it changes while a run is under way, so it is read when it is needed."""
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

    def get(self, name: str) -> Held | None:
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


class Effect(Struct, frozen=True):
    """One call to the world, described so that it can be recorded, paid for, retried and recognised.

    `request` is a digest of what is sent; `prompt_bytes` and `messages` size the reservation of a model request. A call
    that names its `model` waits for its turn there, among all calls of the engine that name it; `pace` says how fast it
    may be called. `rate` says what tokens cost at most, beside a prompt of so many; it is asked only where money is
    bounded. `note` is what the prompt grows by where the call tells that its output cap was cut.

    `default_timeout` holds where neither `timeout` nor a limit on each message does. A text that comes back is cut at
    `max_bytes`; other JSON that is larger fails the call.
    """

    kind: EffectKind
    name: str
    request: str
    call: Callable[[Attempt], Awaitable[Returned]]
    prompt_bytes: int = 0
    messages: int = 0
    max_output: int | None = None
    retry: RetryPolicy | None = None
    timeout: float | None = None
    model: str = ""
    pace: Pace | None = None
    rate: Callable[[int], Rate | None] | None = None
    note: int = 0
    default_timeout: float | None = None
    max_bytes: int = MAX_BYTES


class Attempt(Struct, frozen=True):
    """What the engine hands to a call.

    `used(mark)` counts the recorded outcomes of this member's calls that carry the mark. `delta` shows a piece of the
    reply to whoever watches. `cut` says that `max_output` is smaller than it should be, since no more is left.
    """

    run_id: str
    number: int
    key: str
    max_output: int | None
    used: Callable[[str], int]
    delta: Callable[[str], None]
    cut: bool = False

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt of one effect, and for no other."""
        return digest(self.run_id, self.key)


class Returned(Struct, frozen=True):
    """What came back from a call: a JSON value, and what it cost.

    `form` says what the value is, where that is not clear from the call: a whole reply, or data. It is recorded beside
    the value, since nothing inside a value may decide how the value is read.
    `truncated` says that it was cut, and `capped` at how many bytes, where the size cap was the reason.
    """

    value: JsonValue
    usage: Usage = NOTHING
    mark: str | None = None
    truncated: bool = False
    form: ValueForm | None = None
    capped: int | None = None
