"""Results and summaries of runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal, TypeVar

from typing_extensions import override

from teamwright.errors import InvalidOutput
from teamwright.values.limits import NOTHING, Usage
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure
from teamwright.values.typed_data import read_as
from teamwright.values.value import JsonValue, Record

Status = Literal[
    "completed", "failed", "degraded", "timeout", "cancelled", "paused", "interrupted", "queued", "running",
]  # fmt: skip
StopReason = Literal[
    "done", "terminated", "max_turns", "error", "budget", "deadline", "cancelled", "person", "approval",
    "retries_exhausted", "pause", "review_exceeded", "planning", "gate",
]  # fmt: skip

FOR_PEOPLE: frozenset[StopReason] = frozenset(("person", "approval", "retries_exhausted"))
"""The stop reasons of runs that wait for a person."""
FINAL: frozenset[Status] = frozenset(("completed", "failed", "degraded", "timeout", "cancelled"))


SPARSE = frozenset(("conversation", "damage", "parent", "driver"))
"""The fields of a summary that most runs lack."""

T = TypeVar("T")


class Outcome(Record, frozen=True):
    """The result of a strategy; the last message is the answer."""

    stop_reason: StopReason = "done"
    messages: tuple[Message, ...] = ()
    data: JsonValue = None
    failure: Failure | None = None
    warnings: tuple[str, ...] = ()
    status: Literal["", "completed", "degraded", "failed", "timeout"] = ""
    """How the team ended, for strategies that derive it from the states of their steps; recorded with its ending."""


OutputKind = Literal["answer", "partial", "rejected"]


class RunResult(Record, frozen=True):
    """The result of a run."""

    run_id: str
    status: Status
    stop_reason: StopReason | None = None
    output: str | None = None
    data: JsonValue = None
    messages: tuple[Message, ...] = ()
    usage: Usage = NOTHING
    warnings: tuple[str, ...] = ()
    started_at: str = ""
    seconds: float = 0.0
    failure: Failure | None = None
    attachments: tuple[Artifact, ...] = ()
    """The files of the task, without their contents."""

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data; `attachments` only where there are some, `output_kind` for rejected work."""
        fields = super().to_json()
        if not self.attachments:
            del fields["attachments"]
        return fields | {"output_kind": "rejected"} if self.output_kind == "rejected" else fields

    @property
    def output_kind(self) -> OutputKind | None:
        """What `output` is: the answer, the last that a stopped run has, or work that did not pass its review."""
        if self.output is None:
            return None
        if self.status == "completed" or (self.status == "degraded" and self.stop_reason == "done"):
            return "answer"
        return "rejected" if self.stop_reason == "review_exceeded" else "partial"

    def data_as(self, form: type[T]) -> T:
        """Return the data as this type: a pydantic model, a dataclass or a TypedDict.

        Raises `InvalidOutput` where the run has no data or its data does not fit.
        """
        if self.data is None:
            raise InvalidOutput(f"The run {self.run_id!r} has no data: {self._why_no_data()}.")
        return read_as(self.data, form, f"The data of the run {self.run_id!r}")

    def _why_no_data(self) -> str:
        if self.failure is not None:
            return f"it {self.status} with {self.failure.error!r} ({self.failure.message.rstrip('.')})"
        if self.status not in FINAL:
            return f"it is {self.status}"
        return "give the agent that answers last an `output_schema`, or read `output`"

    @property
    def exit_code(self) -> int:
        """The exit code of the command line for this result."""
        match self.status:
            case "completed" | "running" | "queued":
                return 0
            case "failed":
                return 1
            case "degraded":
                return 4 if self.stop_reason == "budget" else 3
            case "timeout":
                return 5
            case "cancelled":
                return 6
            case "paused":
                return 7
            case "interrupted":
                return 130


class RunSummary(Record, frozen=True):
    """A run in a list of runs."""

    id: str
    team: str
    status: Status
    stop_reason: StopReason | None = None
    started_at: str = ""
    seconds: float = 0.0
    total_tokens: int = 0
    usd: float | None = None
    conversation: str = ""
    """The conversation of which the run is a turn; empty if it is of none."""
    damage: str | None = None
    """Why the run can't be read, where its record is damaged or of a later version."""
    parent: str = ""
    """The run of which this one is a branch, and whose figures include its own; empty if it is none."""
    driver: str = ""
    """What resumed the run last: a worker, server or host, and the process id, or the server that began it."""

    @property
    def run_id(self) -> str:
        """The run's id, under the name that it has in `RunResult`."""
        return self.id

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data; those that most runs lack only where they are set."""
        fields = super().to_json()
        return {name: value for name, value in fields.items() if value or name not in SPARSE}


def iso(time: float) -> str:
    """Format a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
