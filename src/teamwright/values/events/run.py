"""Facts about a run: its start and end, its timers, questions to people, logs, metrics, and facts of third parties."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from teamwright.values.events.agent import Body, MessageRef
from teamwright.values.limits import Bounds, SpendForecast
from teamwright.values.people import Answer, Intervention, Question
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import Status, StopReason
from teamwright.values.turns.turn import Failure
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import JsonValue, Record

RUN_FORMAT = 1
"""The format that a new run records: its prompts, keys and digests. A version resumes runs up to its own format."""


class Origin(Record, frozen=True):
    """The source of a forked, continued or placed run; `checkpoint` is the name of the point, where it has one.

    `root` is the run that the first of several forks was made of; empty if that is `run_id`. A placed run answers one
    ask of its parent `run_id`, whose effect has the key `key`.
    """

    run_id: str
    number: int
    how: Literal["fork", "continue", "place"]
    checkpoint: str = ""
    root: str = ""
    key: str = ""

    @property
    def root_run(self) -> str:
        """The run that all forks of a family go back to; a continued run is a family of its own."""
        return self.root or self.run_id


class PlacedTurn(Record, frozen=True):
    """What a placed run records of the turn that it answers, besides its task, history and files.

    `turn` has the other fields of the turn. `artifacts` are those of the parent that its texts point to. `depth` is the
    number of runs around this one.
    """

    turn: Body
    artifacts: tuple[Body, ...] = ()
    depth: int = 1


class RunStarted(Record, frozen=True):
    """A run began: its task, its team, and what is needed to build that again."""

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
    conversation: str = ""
    """The conversation of which the run is a turn; empty if it is of none."""
    attachments: tuple[Artifact, ...] = ()
    confirm: SpendForecast | None = None
    """The forecast that a person confirms before the run spends anything; `None` if it needs no confirmation."""
    files: dict[str, Body] = {}
    """The files that travel with the run, by their paths in the folder of its manifest; each is a stored content."""
    code: str = ""
    """The digest of the folder with the run's Python code; empty if the run needs installed packages alone."""
    budget: str = ""
    """The tenant's budget that the run draws on; empty if it draws on none."""
    placed: PlacedTurn | None = None
    """The turn that the run answers, if a branch of another run was placed here."""
    driver: str = ""
    """The server that drives the run from its start; empty if a program does, or a worker will."""
    commit: str = ""
    """The commit that the team's branch begins at; empty if the team has no workspace of files."""

    @property
    def parent(self) -> str:
        """The run of which this one is a branch; empty for any other run, and for a fork of a branch."""
        return self.origin.run_id if self.origin is not None and self.origin.how == "place" else ""


class RunResumed(Record, frozen=True):
    """A driver took over a run that had stopped."""

    kind: ClassVar = "run.resumed"
    driver: str = ""
    folder: str = ""
    """The folder of the manifest from now on, if it has moved."""


class RunPaused(Record, frozen=True):
    """The run waits, without a driver, for a person or a provider; for a provider until `resume_at`, since 1970."""

    kind: ClassVar = "run.paused"
    stop_reason: StopReason
    waiting_for: tuple[str, ...] = ()
    why: str = ""
    """Why a driver paused the run, in words; empty where a person did, or where it waits for one."""
    resume_at: float | None = None


class RunInterrupted(Record, frozen=True):
    """The driver was interrupted; the time until now counts as time with a driver. The run can be resumed."""

    kind: ClassVar = "run.interrupted"


class RunQueued(Record, frozen=True):
    """The run waits in a queue for a worker that drives it; the time until now counts as time with a driver."""

    kind: ClassVar = "run.queued"
    queue: str = ""
    waits_for: tuple[str, ...] = ()
    """What a worker must have that no worker had so far; empty if any worker will do."""
    starts: float | None = None
    """The time before which no worker drives the run, in seconds since 1970; `None` if it was submitted for now."""


class RunIntervened(Record, frozen=True):
    """The run accepted an intervention from its inbox."""

    kind: ClassVar = "run.intervened"
    intervention: Intervention
    inbox_id: int


class RunApplied(Record, frozen=True):
    """An accepted intervention took effect here: before the ask with this key, or for the run as a whole.

    A message that members read is `at` this position of the history from now on, for all asks of the scope.
    """

    kind: ClassVar = "run.applied"
    intervention: Intervention
    inbox_id: int
    at: int | None = None


class RunRefused(Record, frozen=True):
    """The run can't take an intervention from its inbox, for this reason."""

    kind: ClassVar = "run.refused"
    intervention: Intervention
    inbox_id: int
    reason: str


class RunAborted(Record, frozen=True):
    """A person aborted the run after the failure of a member: all work stops, and the run fails with that failure."""

    kind: ClassVar = "run.aborted"
    member: str
    error: str
    message: str

    def failure(self, messages: Iterable[Message] = ()) -> Failure:
        """Return the failure over which the run was aborted."""
        return Failure(member=self.member, error=self.error, message=self.message, messages=tuple(messages))


class RunEnded(Record, frozen=True):
    """The run ended; nothing follows."""

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
    """The deadline of a scope passed; all work in it is stopped."""

    kind: ClassVar = "run.expired"
    seconds: float


class ScopeWaited(Record, frozen=True):
    """A scope waited for people alone for so long; this time does not count against its limit."""

    kind: ClassVar = "run.waited"
    seconds: float


class RunNotified(Record, frozen=True):
    """One attempt to call the webhook; `error` says why it failed, `retry_in` when the next is due."""

    kind: ClassVar = "run.notified"
    error: str | None = None
    attempt: int = 1
    retry_in: float | None = None


class TimerSet(Record, frozen=True):
    """A timer began."""

    kind: ClassVar = "run.timer_set"
    seconds: float


class TimerFired(Record, frozen=True):
    """A timer ended."""

    kind: ClassVar = "run.timer_fired"


class RunCheckpoint(Record, frozen=True):
    """A named checkpoint, at which a fork can start; `by` is the person who named it."""

    kind: ClassVar = "run.checkpoint"
    name: str
    by: str = ""


class RunLogged(Record, frozen=True):
    """A log line."""

    kind: ClassVar = "run.logged"
    text: str
    level: Literal["debug", "info", "warning", "error"] = "info"


class RunMeasured(Record, frozen=True):
    """A metric of the run; values of one name are summed."""

    kind: ClassVar = "run.measured"
    name: str
    value: float


class PersonAsked(Record, frozen=True):
    """A question to a person; its draft is a body."""

    kind: ClassVar = "person.asked"
    question: Question
    draft: Body | None = None


class PersonAnswered(Record, frozen=True):
    """A person answered a question."""

    kind: ClassVar = "person.answered"
    answer: Answer


class Custom(Record, frozen=True):
    """A fact of a third party, with its own domain, name and data."""

    kind: ClassVar = "custom"
    domain: str
    name: str
    data: JsonValue = None


EngineRunFact = (
    RunStarted | RunResumed | RunPaused | RunInterrupted | RunQueued | RunIntervened | RunApplied | RunRefused
    | RunAborted | RunEnded | RunNotified
    | ScopeExpired | ScopeWaited | TimerSet | TimerFired
    | PersonAsked | PersonAnswered
)  # fmt: skip
RunFact = EngineRunFact | RunLogged | RunMeasured | RunCheckpoint | Custom
