"""A recorded conversation for readers: its turns, and what the next turn gets to see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from teamwright.values.limits import NOTHING, Usage, add_usd

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.history.record.asks import RecordedBodies
    from teamwright.history.run_history import RunHistory
    from teamwright.values.events.run import RunEnded, RunStarted
    from teamwright.values.turns.messages import Message
    from teamwright.values.turns.results import RunSummary, Status


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One turn: the run, its task and its answer.

    It is `inherited` by a fork of the conversation that it is a turn of.
    """

    run_id: str
    task: str
    output: str | None
    status: Status
    usage: Usage
    inherited: bool = False

    @classmethod
    def of(cls, history: RunHistory, status: Status) -> Self:
        result = history.result(status)
        return cls(result.run_id, history.task, result.output, result.status, result.usage)

    @classmethod
    def of_ended(cls, run_id: str, started: RunStarted, ended: RunEnded, bodies: RecordedBodies) -> Self:
        output = str(bodies.value(ended.output)) if ended.output else None
        return cls(run_id, str(bodies.value(started.task)), output, ended.status, ended.usage)

    def to_json(self) -> dict[str, JsonValue]:
        """What `runs conversation` prints of a turn."""
        return {
            "run_id": self.run_id,
            "task": self.task,
            "output": self.output,
            "status": self.status,
            "usage": self.usage.to_json(),
        }


@dataclass(frozen=True, slots=True)
class ConversationHistory:
    """The turns of a conversation in order, and the messages that its next turn continues."""

    name: str
    turns: tuple[ConversationTurn, ...]
    messages: tuple[Message, ...]

    @property
    def usage(self) -> Usage:
        return sum((turn.usage for turn in self.turns), NOTHING)

    @property
    def last_run(self) -> str | None:
        return self.turns[-1].run_id if self.turns else None


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """A conversation in a list, with its newest turn; tokens and price are of all turns, also undone ones."""

    name: str
    team: str
    turns: int
    last_run: str
    status: Status
    started_at: str
    total_tokens: int
    usd: float | None

    @classmethod
    def of(cls, run: RunSummary) -> Self:
        """Return the summary of a conversation whose newest turn is this run."""
        return cls(run.conversation, run.team, 1, run.id, run.status, run.started_at, run.total_tokens, run.usd)

    def with_earlier(self, run: RunSummary) -> ConversationSummary:
        return replace(
            self,
            turns=self.turns + 1,
            started_at=run.started_at,
            total_tokens=self.total_tokens + run.total_tokens,
            usd=add_usd(self.usd, run.usd),
        )

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "name": self.name,
            "team": self.team,
            "turns": self.turns,
            "last_run": self.last_run,
            "status": self.status,
            "started_at": self.started_at,
            "total_tokens": self.total_tokens,
            "usd": self.usd,
        }
