"""The facts of a run: a closed union, numbered, each in one domain. The journal is nothing but these, in order.

A fact says what happened; the `Event` around it says to which run, when, where, and as which number.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, cast

from pydantic import Field, JsonValue

from teamwright.values.frozen import Value
from teamwright.values.names import join_key
from teamwright.values.people import Answer, Intervention, Question
from teamwright.values.results import Status, StopReason
from teamwright.values.turns import Purpose, Signal
from teamwright.values.usage import NOTHING, Usage

SCHEMA_VERSION = 1

Domain = Literal["run", "team", "step", "agent", "budget", "person", "workspace", "custom"]
EffectKind = Literal["model", "tool", "function"]
Body = str
"""The content hash of a body that the journal keeps."""


class MessageRef(Value):
    """A message as the journal keeps it: its text is a body."""

    name: str
    body: Body
    role: Literal["user"] | None = None


class Origin(Value):
    """Where a forked or continued run came from."""

    run_id: str
    number: int
    how: Literal["fork", "continue"]


class RunStarted(Value):
    kind: Literal["run.started"] = "run.started"
    team: str
    task: Body
    manifest: Body
    seed: int
    strategies: dict[str, int] = {}
    origin: Origin | None = None
    history: tuple[MessageRef, ...] = ()


class RunResumed(Value):
    kind: Literal["run.resumed"] = "run.resumed"
    driver: str = ""


class RunPaused(Value):
    kind: Literal["run.paused"] = "run.paused"
    stop_reason: StopReason
    waiting_for: tuple[str, ...] = ()


class RunIntervened(Value):
    """Something that a person sent was taken, at this point."""

    kind: Literal["run.intervened"] = "run.intervened"
    intervention: Intervention
    letter: int


class RunEnded(Value):
    kind: Literal["run.ended"] = "run.ended"
    status: Status
    stop_reason: StopReason
    output: Body | None = None
    data: Body | None = None
    usage: Usage = NOTHING
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str | None = None
    message: str | None = None


class ScopeExpired(Value):
    """A scope's time was used up; whatever runs inside it is stopped."""

    kind: Literal["run.expired"] = "run.expired"
    seconds: float


class TimerSet(Value):
    kind: Literal["run.timer_set"] = "run.timer_set"
    seconds: float


class TimerFired(Value):
    kind: Literal["run.timer_fired"] = "run.timer_fired"


class TeamStarted(Value):
    kind: Literal["team.started"] = "team.started"
    strategy: str
    strategy_version: int
    members: tuple[str, ...]
    share: str = "transcript"


class TeamEnded(Value):
    kind: Literal["team.ended"] = "team.ended"
    stop_reason: StopReason
    turns: int = 0


class AgentAsked(Value):
    """An ask began. `length` and `digest` say what the member was told, without a copy."""

    kind: Literal["agent.asked"] = "agent.asked"
    member: str
    member_kind: str
    turn: int
    task: Body
    length: int
    digest: str
    purpose: Purpose = "work"


class Tally(Value):
    """What the effects inside one agent's turn came to, so that its ending stands for them all.

    `charged` is what the budget was charged where that differs from the tokens used.
    """

    calls: int = 0
    charged: int | None = None
    marks: tuple[str, ...] = ()


class AgentReplied(Value):
    kind: Literal["agent.replied"] = "agent.replied"
    messages: tuple[MessageRef, ...] = ()
    data: Body | None = None
    usage: Usage = NOTHING
    signal: Signal | None = None
    stop_reason: str | None = None
    truncated: bool = False
    warnings: tuple[str, ...] = ()
    tally: Tally | None = None


class AgentFailed(Value):
    """An ask ended without an answer; `cancelled` endings follow from a decision that is recorded elsewhere."""

    kind: Literal["agent.failed"] = "agent.failed"
    member: str
    error: str
    message: str
    usage: Usage = NOTHING
    messages: tuple[MessageRef, ...] = ()
    tally: Tally | None = None


class AgentAbandoned(Value):
    """A synchronous function did not stop in time and was left behind."""

    kind: Literal["agent.abandoned"] = "agent.abandoned"
    name: str
    grace: float


class AgentCalled(Value):
    """An effect is about to leave. Without a matching return it is in doubt."""

    kind: Literal["agent.called"] = "agent.called"
    effect: EffectKind
    name: str
    request: str
    attempt: int = 1
    reserved: int = 0
    max_output: int | None = None
    in_doubt: bool = False


class AgentReturned(Value):
    kind: Literal["agent.returned"] = "agent.returned"
    body: Body
    attempt: int = 1
    usage: Usage = NOTHING
    mark: str | None = None
    truncated: bool = False


class AgentCallFailed(Value):
    """An effect failed; it is made again after `retry_in` seconds, or is given up."""

    kind: Literal["agent.call_failed"] = "agent.call_failed"
    error: str
    message: str
    attempt: int = 1
    retry_in: float | None = None
    charged: bool = False
    mark: str | None = None


class BudgetRefused(Value):
    """A call did not fit what is left at `level`."""

    kind: Literal["budget.refused"] = "budget.refused"
    level: str
    what: Literal["tokens", "calls"]
    needed: int
    left: int
    limit: int


class BudgetExceeded(Value):
    """A provider reported more than was reserved."""

    kind: Literal["budget.exceeded"] = "budget.exceeded"
    level: str
    reserved: int
    spent: int
    over: int


class PersonAsked(Value):
    kind: Literal["person.asked"] = "person.asked"
    question: Question


class PersonAnswered(Value):
    kind: Literal["person.answered"] = "person.answered"
    answer: Answer


class Custom(Value):
    """The one open kind, for third parties."""

    kind: Literal["custom"] = "custom"
    domain: str
    name: str
    data: JsonValue = None


Fact = Annotated[
    RunStarted | RunResumed | RunPaused | RunIntervened | RunEnded | ScopeExpired | TimerSet | TimerFired
    | TeamStarted | TeamEnded
    | AgentAsked | AgentReplied | AgentFailed | AgentAbandoned | AgentCalled | AgentReturned | AgentCallFailed
    | BudgetRefused | BudgetExceeded
    | PersonAsked | PersonAnswered
    | Custom,
    Field(discriminator="kind"),
]  # fmt: skip


class Event(NamedTuple):
    """A numbered fact. `scope` is the path it happened in and `place` its name there."""

    run_id: str
    number: int
    time: float
    scope: str
    place: str
    fact: Fact
    version: int = SCHEMA_VERSION

    @property
    def kind(self) -> str:
        """What happened, as a word."""
        return self.fact.kind

    @property
    def domain(self) -> Domain:
        """The part of the system that the fact is about."""
        return cast("Domain", self.fact.kind.partition(".")[0])

    @property
    def key(self) -> str:
        """The full path of the place."""
        return join_key(self.scope, self.place)

    def to_json(self) -> dict[str, JsonValue]:
        """The event as one flat JSON object, as every reader outside gets it; a custom event brings its own domain."""
        head: dict[str, JsonValue] = {
            "run_id": self.run_id, "number": self.number, "time": self.time, "domain": self.domain,
            "kind": self.kind, "scope": self.scope, "key": self.key, "version": self.version,
        }  # fmt: skip
        return head | self.fact.model_dump(mode="json", exclude={"kind"})


class Delta(Value):
    """A piece of a reply as it is being written: no event, never stored, superseded by the recorded reply."""

    run_id: str
    key: str
    member: str
    attempt: int
    offset: int
    text: str
