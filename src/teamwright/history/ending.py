"""The ending of a run: its status and stop reason, from the last reply of its team."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import cast

from pydantic import JsonValue

from teamwright.values.events.run import RunAborted
from teamwright.values.limits import Usage
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult, Status, StopReason, iso
from teamwright.values.turns.turn import Failure, Reply

STOPPED: dict[str, tuple[Status, StopReason]] = {
    "budget": ("degraded", "budget"),
    "deadline": ("timeout", "deadline"),
    "cancelled": ("cancelled", "cancelled"),
    "max_turns": ("failed", "max_turns"),
    "review_exceeded": ("failed", "review_exceeded"),
    "planning": ("failed", "planning"),
}
"""The status and stop reason of failures that are no ordinary error."""


@dataclass(frozen=True, slots=True)
class Ending:
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


def abort_failure(aborted: RunAborted, messages: Iterable[Message] = ()) -> Failure:
    """The failure over which a person aborted the run."""
    return Failure(member=aborted.member, error=aborted.error, message=aborted.message, messages=tuple(messages))


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
