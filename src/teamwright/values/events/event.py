"""An event: a numbered fact of a run. A journal consists of events, in order; a fold computes a value from them.

A fact says what happened; its `Event` adds the run, the number, the time and the place. The facts are a closed union;
the modules beside this one define them. A fold does no I/O and reads no clock, so the same events give the same value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Protocol, TypeVar, cast, get_args

from msgspec import Struct

from teamwright.values.events.agent import AgentFact, EngineAgentFact
from teamwright.values.events.budget import BudgetFact, EngineBudgetFact
from teamwright.values.events.run import EngineRunFact, RunFact
from teamwright.values.events.team import TeamFact
from teamwright.values.run_keys import join_key
from teamwright.values.value import JsonValue, Record

SCHEMA_VERSION = 2

Domain = Literal["run", "team", "step", "agent", "budget", "person", "workspace", "custom"]

Fact = RunFact | TeamFact | AgentFact | BudgetFact
ENGINE_FACTS: frozenset[type[Fact]] = frozenset(get_args(EngineRunFact | EngineAgentFact | EngineBudgetFact))
"""Facts that only the engine may record, since a run is rebuilt from them."""


class Event(Struct, frozen=True, gc=False):
    """A numbered fact. `scope` is the path in which it happened, and `place` its name there."""

    run_id: str
    number: int
    time: float
    scope: str
    place: str
    fact: Fact
    version: int = SCHEMA_VERSION

    @property
    def kind(self) -> str:
        """The kind of the fact."""
        return self.fact.kind

    @property
    def domain(self) -> Domain:
        """The domain of the fact, which is the first word of its kind."""
        return cast("Domain", self.fact.kind.partition(".")[0])

    @property
    def key(self) -> str:
        """The scope and place as one path."""
        return join_key(self.scope, self.place)

    def to_json(self) -> dict[str, JsonValue]:
        """The event as one flat JSON object; a custom event has its own domain."""
        head: dict[str, JsonValue] = {
            "run_id": self.run_id, "number": self.number, "time": self.time, "domain": self.domain,
            "kind": self.kind, "scope": self.scope, "key": self.key, "version": self.version,
        }  # fmt: skip
        return head | self.fact.to_json()


OutputForm = Literal["data", "wrapped"]
"""How structured output is written: as it is, or, if it is no object, inside one."""
WRAPPED = "value"
"""The key of wrapped output in its object."""


class _Piece(Record, frozen=True, kw_only=True):
    """A piece of what a model is writing. It is no event and never stored; the recorded response replaces it.

    `key` is the turn, and `offset` the characters of the same part before it: a piece at 0 begins the part. `output`
    says that it is a piece of the member's structured output, in JSON. `steps` are the steps of a plan that it
    completes, a line for each.
    """

    kind: ClassVar[str]
    run_id: str
    key: str
    member: str
    attempt: int
    offset: int
    text: str
    output: OutputForm | None = None
    steps: tuple[str, ...] = ()


class Delta(_Piece, frozen=True):
    """A piece of a streamed reply."""

    kind: ClassVar = "delta.text"


class ThinkingDelta(_Piece, frozen=True):
    """A piece of what a model thinks before it replies."""

    kind: ClassVar = "delta.thinking"


class ArgumentsDelta(_Piece, frozen=True, kw_only=True):
    """A piece of the arguments of a tool call; `call` is its number among the calls of one response, from 1."""

    kind: ClassVar = "delta.arguments"
    tool: str
    call: int


AnyDelta = Delta | ThinkingDelta | ArgumentsDelta
"""A piece of a response that is being written, of any part."""


class Fold(Protocol):
    """A value that events change one by one."""

    def apply(self, event: Event) -> None:
        """Apply the next event of the run."""
        ...


AnyFold = TypeVar("AnyFold", bound=Fold)


def fold(events: Iterable[Event], into: AnyFold) -> AnyFold:
    """Apply events in order, and return what they were applied to."""
    for event in events:
        into.apply(event)
    return into
