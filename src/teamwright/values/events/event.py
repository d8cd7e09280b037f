"""The facts of a run: a closed union, numbered, each in one domain. The journal is nothing but these, in order.

A fact says what happened; the `Event` around it says to which run, when, where, and as which number.
"""

from __future__ import annotations

from typing import ClassVar, Literal, cast

from msgspec import Struct

from teamwright.values.artifacts import Artifact
from teamwright.values.envelope import Handover, RiskLevel
from teamwright.values.events.budget import (
    BudgetDegraded,
    BudgetEased,
    BudgetExceeded,
    BudgetOpened,
    BudgetRefused,
    BudgetThrottled,
    BudgetUnpriced,
)
from teamwright.values.models import JsonValue, Record
from teamwright.values.names import join_key
from teamwright.values.people import Answer, Intervention, Question
from teamwright.values.results import Status, StopReason
from teamwright.values.turns import Purpose, Signal, Tier
from teamwright.values.usage import NOTHING, Amounts, Bounds, Usage

SCHEMA_VERSION = 1
RUN_FORMAT = 2
"""What a new run records as its format; a run and its forks keep that. 1, also where none is recorded: texts stand in
prompts as they are, and an abort is a failure like any other. 2: texts are quoted, and an abort ends the run."""

Domain = Literal["run", "team", "step", "agent", "budget", "person", "workspace", "custom"]
EffectKind = Literal["model", "tool", "function"]
ValueForm = Literal["reply", "data"]
Body = str
"""The content hash of a body that the journal keeps."""


class MessageRef(Record, frozen=True):
    """A message as the journal keeps it: its text is a body."""

    name: str
    body: Body
    role: Literal["user"] | None = None


class Origin(Record, frozen=True):
    """Where a forked or continued run came from; `checkpoint` is the name of that point, where it has one."""

    run_id: str
    number: int
    how: Literal["fork", "continue"]
    checkpoint: str = ""


class RunStarted(Record, frozen=True):
    kind: ClassVar = "run.started"
    team: str
    task: Body
    manifest: Body
    seed: int
    strategies: dict[str, int] = {}
    origin: Origin | None = None
    history: tuple[MessageRef, ...] = ()
    limits: Bounds | None = None
    format: int = 1


class RunResumed(Record, frozen=True):
    kind: ClassVar = "run.resumed"
    driver: str = ""


class RunPaused(Record, frozen=True):
    kind: ClassVar = "run.paused"
    stop_reason: StopReason
    waiting_for: tuple[str, ...] = ()


class RunInterrupted(Record, frozen=True):
    """The driver was told to stop: up to here it counts as time with a driver. The run can be resumed."""

    kind: ClassVar = "run.interrupted"


class RunIntervened(Record, frozen=True):
    """Something that a person sent was taken, at this point."""

    kind: ClassVar = "run.intervened"
    intervention: Intervention
    letter: int


class RunAborted(Record, frozen=True):
    """A person chose to abort over the failure of a member: everything is stopped, and the run fails with it."""

    kind: ClassVar = "run.aborted"
    member: str
    error: str
    message: str


class RunEnded(Record, frozen=True):
    kind: ClassVar = "run.ended"
    status: Status
    stop_reason: StopReason
    output: Body | None = None
    data: Body | None = None
    usage: Usage = NOTHING
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str | None = None
    message: str | None = None
    member: str | None = None


class ScopeExpired(Record, frozen=True):
    """A scope's time was used up; whatever runs inside it is stopped."""

    kind: ClassVar = "run.expired"
    seconds: float


class ScopeWaited(Record, frozen=True):
    """For so long nothing in a scope could go on but by a person's answer, which is no time of its own."""

    kind: ClassVar = "run.waited"
    seconds: float


class RunNotified(Record, frozen=True):
    """One attempt to tell a webhook that the run waits; `error` says why it failed, `retry_in` when the next is due."""

    kind: ClassVar = "run.notified"
    error: str | None = None
    attempt: int = 1
    retry_in: float | None = None


class TimerSet(Record, frozen=True):
    kind: ClassVar = "run.timer_set"
    seconds: float


class TimerFired(Record, frozen=True):
    kind: ClassVar = "run.timer_fired"


class TeamStarted(Record, frozen=True):
    kind: ClassVar = "team.started"
    strategy: str
    strategy_version: int
    members: tuple[str, ...]
    share: str = "transcript"


class TeamReopened(Record, frozen=True):
    """In the run that this one was forked from a nested team had ended here. Its members may differ: it ends anew."""

    kind: ClassVar = "team.reopened"


class TeamEnded(Record, frozen=True):
    kind: ClassVar = "team.ended"
    stop_reason: StopReason
    turns: int = 0


class TeamSelected(Record, frozen=True):
    """Who speaks next: `by` whom it was chosen, `how` the answer was read, and why it fell back, if it did."""

    kind: ClassVar = "team.selected"
    member: str
    turn: int
    how: Literal["structured", "exact", "case", "mention", "only", "fallback"]
    by: str = ""
    reason: str = ""


class TeamRouted(Record, frozen=True):
    """The way that was taken from one member to the next, and its condition; to nobody, where no way was open."""

    kind: ClassVar = "team.routed"
    source: str
    to: str | None = None
    when: str | None = None


class TeamDecided(Record, frozen=True):
    """An orchestrator decided what comes next; `to` are those it delegated to, in order."""

    kind: ClassVar = "team.decided"
    by: str
    action: Literal["delegate", "synthesize", "clarify"]
    iteration: int
    to: tuple[str, ...] = ()


class TeamToldBack(Record, frozen=True):
    """A member's answer could not be used, so it was told why and asked once more."""

    kind: ClassVar = "team.told_back"
    member: str
    problem: str


class TeamEscalated(Record, frozen=True):
    """A member's reply is of high or critical risk, so it counts only if `to` lets it pass; nobody named is a person.

    `reason` says why it is a person's matter although the team has a lead.
    """

    kind: ClassVar = "team.escalated"
    member: str
    task_id: str
    risk_level: RiskLevel
    to: str = ""
    reason: str = ""


class TeamPlanned(Record, frozen=True):
    """How a team is going to work through its plan, and why in this shape where that was chosen for it."""

    kind: ClassVar = "team.planned"
    topology: str
    steps: int
    rounds: int
    width: int
    lead: str = ""
    workers: tuple[str, ...] = ()
    tokens: int = 0
    reason: str = ""


class TeamTold(Record, frozen=True):
    """Somebody tells others something in a round of a plan: `count` messages to each of them."""

    kind: ClassVar = "team.told"
    by: str
    to: tuple[str, ...]
    round: int
    count: int = 1


class TeamChannelOpened(Record, frozen=True):
    """Two workers may talk with each other, since one is stopped at its step by what the other does."""

    kind: ClassVar = "team.channel_opened"
    step: str
    between: tuple[str, ...]
    reason: str


class TeamChannelClosed(Record, frozen=True):
    """Two workers have talked for as long as they may, or until one said that the matter is settled."""

    kind: ClassVar = "team.channel_closed"
    step: str
    between: tuple[str, ...]
    messages: int
    settled: bool


class TeamEmitted(Record, frozen=True):
    """An event within a reactive team: `event` is its id there, `cause` the one it follows from, `to` who reacts."""

    kind: ClassVar = "team.emitted"
    event: str
    type: str
    depth: int
    by: str = ""
    cause: str = ""
    to: tuple[str, ...] = ()


class TeamBounded(Record, frozen=True):
    """A limit of a reactive team was reached: this event, and those like it from now on, are not taken.

    `chain` holds the types of the events that led to it, the nearest last.
    """

    kind: ClassVar = "team.bounded"
    limit: Literal["max_events", "max_depth"]
    most: int
    type: str
    by: str
    chain: tuple[str, ...] = ()

    @property
    def course(self) -> str:
        """The chain in words; one that comes back to where it began is a loop."""
        loop = len(self.chain) > 1 and self.chain[0] == self.chain[-1]
        return f"in the {'loop' if loop else 'chain'} {' → '.join(self.chain)}"


class StepSkipped(Record, frozen=True):
    """A step is not worked on: its condition does not hold, all it needs was skipped, or it stands on a failed step.

    `because` are the steps that it needs and for which it is skipped.
    """

    kind: ClassVar = "step.skipped"
    step: str
    reason: Literal["condition", "needs", "failure"]
    because: tuple[str, ...] = ()


class StepHeldUp(Record, frozen=True):
    """A step has to wait for keys that others own, or are to own before it; `by` are the first of those.

    Without `step` it is the scope of this event that waits, and `by` are scopes.
    """

    kind: ClassVar = "step.held_up"
    keys: tuple[str, ...]
    by: tuple[str, ...] = ()
    step: str = ""


class TeamGoalReached(Record, frozen=True):
    """A reply brought a reactive team to its goal; what waited was dropped, and who was at work was stopped."""

    kind: ClassVar = "team.goal_reached"
    by: str
    waiting: int = 0
    at_work: int = 0


class AgentAsked(Record, frozen=True):
    """An ask began. `length` and `digest` say what the member was told, without a copy.

    `called` says that the turn is a single call: it leaves with this event, and the ending is its return. `left` is
    what was left of the budget around the turn, and `tier` which of the member's models was to answer.
    """

    kind: ClassVar = "agent.asked"
    member: str
    member_kind: str
    turn: int
    task: Body
    length: int
    digest: str
    purpose: Purpose = "work"
    called: bool = False
    left: Amounts | None = None
    tier: Tier = "primary"


class Tally(Record, frozen=True):
    """What the effects inside one agent's turn came to, so that its ending stands for them all.

    `charged` is what the budget was charged where that differs from the tokens used, and `charged_usd` where it
    differs from the money.
    """

    calls: int = 0
    charged: int | None = None
    charged_usd: float | None = None
    marks: tuple[str, ...] = ()


class AgentReplied(Record, frozen=True):
    kind: ClassVar = "agent.replied"
    messages: tuple[MessageRef, ...] = ()
    data: Body | None = None
    usage: Usage = NOTHING
    signal: Signal | None = None
    stop_reason: str | None = None
    truncated: bool = False
    warnings: tuple[str, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    tally: Tally | None = None
    handoff: Handover | None = None


class AgentFailed(Record, frozen=True):
    """An ask ended without an answer; `cancelled` endings follow from a decision that is recorded elsewhere.

    `path` is who failed inside the member that was asked, and begins with its name; empty where it failed itself.
    """

    kind: ClassVar = "agent.failed"
    member: str
    error: str
    message: str
    usage: Usage = NOTHING
    messages: tuple[MessageRef, ...] = ()
    data: Body | None = None
    tally: Tally | None = None
    path: str = ""
    warnings: tuple[str, ...] = ()


class AgentAbandoned(Record, frozen=True):
    """A member, or a call of one, did not end within the grace time after it was cancelled."""

    kind: ClassVar = "agent.abandoned"
    name: str
    grace: float


class AgentCalled(Record, frozen=True):
    """An effect is about to leave, after it has `waited` for its turn at the model. Without a return it is in doubt."""

    kind: ClassVar = "agent.called"
    effect: EffectKind
    name: str
    request: str
    attempt: int = 1
    reserved: int = 0
    reserved_usd: float = 0.0
    max_output: int | None = None
    in_doubt: bool = False
    waited: float = 0.0


class AgentRecovered(Record, frozen=True):
    """Something is tried after an ask failed: a shorter conversation, another agent, or a person's advice."""

    kind: ClassVar = "agent.recovered"
    member: str
    error: str
    how: Literal["summarised", "fell_back", "asked_person"]
    to: str = ""


class AgentReturned(Record, frozen=True):
    kind: ClassVar = "agent.returned"
    body: Body
    attempt: int = 1
    usage: Usage = NOTHING
    mark: str | None = None
    truncated: bool = False
    form: ValueForm | None = None
    capped: int | None = None


class AgentCallFailed(Record, frozen=True):
    """An effect failed; it is made again after `retry_in` seconds, or is given up."""

    kind: ClassVar = "agent.call_failed"
    error: str
    message: str
    attempt: int = 1
    retry_in: float | None = None
    charged: bool = False
    mark: str | None = None


class RunCheckpoint(Record, frozen=True):
    """This point of the run has a name, by which a fork can begin here; `by` is a person who gave it."""

    kind: ClassVar = "run.checkpoint"
    name: str
    by: str = ""


class RunLogged(Record, frozen=True):
    """A line for whoever looks at the run."""

    kind: ClassVar = "run.logged"
    text: str
    level: Literal["debug", "info", "warning", "error"] = "info"


class RunMeasured(Record, frozen=True):
    """A figure about the run; figures of one name add up."""

    kind: ClassVar = "run.measured"
    name: str
    value: float


class WorkspaceWritten(Record, frozen=True):
    """A shared value has a new version, counted from one."""

    kind: ClassVar = "workspace.written"
    name: str
    revision: int
    body: Body
    by: str


class WorkspaceConflicted(Record, frozen=True):
    """A write was refused since the value is at another revision than it was based on; `by` wrote that one."""

    kind: ClassVar = "workspace.conflicted"
    name: str
    based_on: int
    revision: int
    body: Body
    by: str


class WorkspaceKept(Record, frozen=True):
    """Something large was stored."""

    kind: ClassVar = "workspace.kept"
    artifact: Artifact
    by: str


class PersonAsked(Record, frozen=True):
    """A person is asked; what the question has as its draft stands in a body."""

    kind: ClassVar = "person.asked"
    question: Question
    draft: Body | None = None


class PersonAnswered(Record, frozen=True):
    kind: ClassVar = "person.answered"
    answer: Answer


class Custom(Record, frozen=True):
    """The one open kind, for third parties."""

    kind: ClassVar = "custom"
    domain: str
    name: str
    data: JsonValue = None


Fact = (
    RunStarted | RunResumed | RunPaused | RunInterrupted | RunIntervened | RunAborted | RunEnded | RunNotified
    | ScopeExpired | ScopeWaited | TimerSet | TimerFired
    | TeamStarted | TeamReopened | TeamEnded
    | TeamSelected | TeamRouted | TeamDecided | TeamToldBack | TeamEmitted | TeamBounded
    | TeamGoalReached | TeamEscalated
    | TeamPlanned | TeamTold | TeamChannelOpened | TeamChannelClosed
    | StepSkipped | StepHeldUp
    | AgentAsked | AgentReplied | AgentFailed | AgentAbandoned | AgentCalled | AgentReturned | AgentCallFailed
    | AgentRecovered
    | BudgetOpened | BudgetRefused | BudgetExceeded | BudgetUnpriced | BudgetDegraded | BudgetThrottled | BudgetEased
    | PersonAsked | PersonAnswered
    | RunLogged | RunMeasured | RunCheckpoint
    | WorkspaceWritten | WorkspaceConflicted | WorkspaceKept
    | Custom
)  # fmt: skip


ENGINES_OWN: frozenset[type[Fact]] = frozenset((
    RunStarted, RunResumed, RunPaused, RunInterrupted, RunIntervened, RunAborted, RunEnded, RunNotified,
    ScopeExpired, ScopeWaited, TimerSet, TimerFired,
    AgentAsked, AgentReplied, AgentFailed, AgentCalled, AgentReturned, AgentCallFailed,
    BudgetOpened, BudgetRefused, BudgetExceeded, PersonAsked, PersonAnswered,
    WorkspaceWritten, WorkspaceConflicted, WorkspaceKept,
))  # fmt: skip
"""What only the engine records: a run is rebuilt from it."""


class Event(Struct, frozen=True, gc=False):
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
        return head | self.fact.to_json()


class Delta(Record, frozen=True):
    """A piece of a reply as it is being written: no event, never stored, superseded by the recorded reply."""

    run_id: str
    key: str
    member: str
    attempt: int
    offset: int
    text: str
