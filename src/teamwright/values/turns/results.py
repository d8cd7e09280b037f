"""Results and summaries of runs, and the ending of a run: its status and stop reason, from the reply of its team."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, inf
from typing import Literal, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from teamwright.errors import InvalidOutput
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Reply
from teamwright.values.typed_data import read_as
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import JsonValue, Record

Status = Literal[
    "completed", "failed", "degraded", "timeout", "cancelled", "paused", "interrupted", "queued", "running",
]  # fmt: skip
StopReason = Literal[
    "done", "terminated", "max_turns", "error", "budget", "deadline", "cancelled", "person", "approval",
    "retries_exhausted", "pause", "review_exceeded", "planning", "gate", "quota",
]  # fmt: skip

FOR_PEOPLE: frozenset[StopReason] = frozenset(("person", "approval", "retries_exhausted"))
"""The stop reasons of runs that wait for a person."""
FINAL: frozenset[Status] = frozenset(("completed", "failed", "degraded", "timeout", "cancelled"))


SPARSE = frozenset(("conversation", "damage", "parent", "driver", "resume_at"))
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
    resume_at: str = ""
    """When a paused run goes on by itself, because a provider takes calls again; empty if it waits for no time."""

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data; those that most runs lack only where they are set."""
        fields = super().to_json()
        for name in ("attachments", "resume_at"):
            if not fields[name]:
                del fields[name]
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
    """The run of which this one is a branch, and whose figures include its own; empty for any other run."""
    driver: str = ""
    """What resumed the run last: a worker, server or host, and the process id, or the server that began it."""
    resume_at: str = ""
    """When a paused run goes on by itself, because a provider takes calls again; empty if it waits for no time."""
    since: float = 0.0
    """When its status changed last, in seconds since 1970; its JSON does not have it."""

    @property
    def run_id(self) -> str:
        """The run's id, under the name that it has in `RunResult`."""
        return self.id

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields but `since` as JSON data; those that most runs lack only where they are set."""
        fields = super().to_json()
        del fields["since"]
        return {name: value for name, value in fields.items() if value or name not in SPARSE}


def iso(time: float) -> str:
    """Format a time as ISO 8601 in UTC."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_after(time: float | None) -> str:
    """Format the first millisecond that is not before a time; empty for none."""
    if time is None:
        return ""
    thousandths = ceil(time * 1000)
    return iso((thousandths + (thousandths / 1000 < time)) / 1000)  # the product may have been rounded down


def seconds_until(time: str, now: float) -> float:
    """Return the seconds until a time in ISO 8601, at least 0; infinity where there is none."""
    return max(0.0, datetime.fromisoformat(time).timestamp() - now) if time else inf


STOPPED: dict[str, tuple[Status, StopReason]] = {
    "budget": ("degraded", "budget"),
    "deadline": ("timeout", "deadline"),
    "cancelled": ("cancelled", "cancelled"),
    "max_turns": ("failed", "max_turns"),
    "review_exceeded": ("failed", "review_exceeded"),
    "planning": ("failed", "planning"),
}
"""The status and stop reason of failures that are no ordinary error."""


class Ending(Struct, frozen=True):
    """The content of a run's last event."""

    status: Status
    stop_reason: StopReason
    messages: tuple[Message, ...]
    usage: Usage
    output: str | None = None
    data: JsonValue = None
    warnings: tuple[str, ...] = ()
    failure: Failure | None = None

    def with_warnings(self, *warnings: str) -> Ending:
        """Add warnings, and keep each once; a completed run with warnings is degraded."""
        if not warnings and not self.warnings:
            return self
        status = "degraded" if (self.status, self.stop_reason) == ("completed", "done") else self.status
        return replace(self, status=status, warnings=tuple(dict.fromkeys((*self.warnings, *warnings))))

    def result(
        self, run_id: str, started_at: float, seconds: float, attachments: tuple[Artifact, ...] = ()
    ) -> RunResult:
        """The ending as a `RunResult`."""
        return RunResult(
            run_id=run_id,
            status=self.status,
            stop_reason=self.stop_reason,
            output=self.output,
            data=self.data,
            messages=self.messages,
            usage=self.usage,
            warnings=self.warnings,
            started_at=iso(started_at),
            seconds=seconds,
            failure=self.failure,
            attachments=attachments,
        )


def ending_of(reply: Reply | Failure, usage: Usage) -> Ending:
    """Return the ending of a run from the reply or failure of its team; both keep their messages."""
    if isinstance(reply, Reply):
        reason = cast("StopReason", reply.stop_reason or "done")
        short = reason == "budget" or (reply.warnings and reason == "done")
        status: Status = "degraded" if short else "completed"
        return Ending(status, reason, reply.messages, usage, reply.text, reply.data, reply.warnings)
    status, reason = STOPPED.get(reply.error, ("failed", "error"))
    output = reply.messages[-1].content if reply.messages else None
    return Ending(status, reason, reply.messages, usage, output, reply.data, (reply.message, *reply.warnings), reply)
