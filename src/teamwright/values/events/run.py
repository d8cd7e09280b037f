"""Facts about a run: its start and end, its timers, and the notes it records for readers."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.events.body import Body, MessageRef
from teamwright.values.limits.usage import NOTHING, Bounds, Usage
from teamwright.values.models import Record
from teamwright.values.people.interventions import Intervention
from teamwright.values.results import Status, StopReason

RUN_FORMAT = 2
"""What a new run records as its format; a run and its forks keep that. 1, also where none is recorded: texts stand in
prompts as they are, and an abort is a failure like any other. 2: texts are quoted, and an abort ends the run."""


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
