"""The contract of strategies, and the conversation that they are made of.

A strategy is deterministic: it reaches members, time and chance only through the context, and awaits nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from pydantic import JsonValue

from teamwright.agents.protocol import Agent, Context
from teamwright.values.messages import EMPTY, Conversation, History, Message
from teamwright.values.results import Outcome, StopReason
from teamwright.values.specs import Share
from teamwright.values.turns import Failure, Reply, Turn

Members = Sequence[Agent]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a team's declaration says to its strategy."""

    share: Share = "transcript"
    max_turns: int | None = None
    on_max_turns: Literal["stop", "fail"] = "stop"
    options: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


@dataclass(frozen=True, slots=True)
class Task:
    """What a team is asked to do."""

    text: str
    history: History = field(default=EMPTY)
    settings: Settings = field(default_factory=Settings)


class Strategy(Protocol):
    """One way for members to work together."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """Recorded with a run, which resumes only on the version it started with: raise it when the order changes."""
        ...

    def problems(self, settings: Settings, members: Members) -> list[str]:
        """What is wrong with these settings for these members, in words; asked before anything runs."""
        ...

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Bring the task to an outcome."""
        ...


class Talk:
    """A team's conversation while it runs: what the next member is told, and what has been said.

    With `share: transcript` a member is told everything, the task last. With `share: output` it is told only what the
    one before said, as its task.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._said = Conversation()
        self._said.extend(task.history)
        self._start = len(self._said)
        self._last: Reply | None = None

    def turn(self, number: int) -> Turn:
        """What the next member is told."""
        if self._task.settings.share == "transcript":
            return Turn(self._task.text, self._said.history(), number)
        if self._last is None:
            return Turn(self._task.text, self._task.history, number)
        return Turn(self._last.text, EMPTY, number)

    def add(self, reply: Reply) -> None:
        """Take in what a member said."""
        self._said.extend(reply.messages)
        self._last = reply

    @property
    def messages(self) -> tuple[Message, ...]:
        """What was said in this run, without the history that the caller brought."""
        return self._said.since(self._start)

    def ended(self, stop_reason: StopReason, *warnings: str) -> Outcome:
        """The outcome when all went well: the last reply is the answer."""
        last = self._last
        return Outcome(
            stop_reason=stop_reason,
            messages=self.messages,
            data=last.data if last else None,
            warnings=warnings,
        )

    def failed(self, failure: Failure) -> Outcome:
        """The outcome when a member's failure ends the team; what was said is kept."""
        return Outcome(stop_reason="error", messages=self.messages, failure=failure)
