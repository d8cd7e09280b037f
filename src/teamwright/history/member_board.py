"""The live state of each member of a run, folded from events. It reads no clock and writes nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from teamwright.agents.evaluators import EVALUATOR
from teamwright.history.budget_levels import BudgetLevels
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentProgressed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event, ThinkingDelta
from teamwright.values.events.run import (
    PersonAnswered,
    PersonAsked,
    RunEnded,
    RunInterrupted,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
)
from teamwright.values.events.team import TeamStarted
from teamwright.values.key import key_and_parents, nearest_key
from teamwright.values.text.secret_patterns import MaskedStream

State = Literal[
    "waiting", "thinking", "streaming", "calling", "listing", "delegating", "retrying", "asking",
    "done", "failed", "stopped",
]  # fmt: skip
"""A member that asks an MCP server for its tools is `listing`, and one that asks another member `delegating`."""
OVER: frozenset[State] = frozenset(("waiting", "done", "failed", "stopped"))
MOST_STREAMED = 4000


@dataclass(slots=True)
class MemberRow:
    """One member of one team: its state, and its time and tokens so far."""

    member: str
    depth: int
    members: dict[str, MemberRow] = field(default_factory=dict[str, "MemberRow"])
    is_team: bool = False
    is_tool: bool = False
    """Whether another member asked it as a tool."""
    state: State = "waiting"
    detail: str = ""
    tokens: int = 0
    turns: int = 0
    streamed: str = ""
    written: int = 0
    """Characters of the response so far."""
    masked: dict[tuple[str, int], MaskedStream] = field(default_factory=dict[tuple[str, int], MaskedStream])
    """The parts of the response; each is masked from its beginning."""
    part: tuple[str, int] = "", 0
    """The part of the response that `streamed` is the end of."""
    since: float | None = None
    seconds: float = 0.0
    last_change: int = 0

    @property
    def is_active(self) -> bool:
        """Whether the member is working now."""
        return self.state not in OVER

    def elapsed(self, now: float) -> float:
        return self.seconds + (max(0.0, now - self.since) if self.since is not None else 0.0)


@dataclass(slots=True)
class OpenTurn:
    """An ask that has no ending yet; `asker` is the member that asks another one during its own turn, as a tool.

    A review is the turn of an evaluator, whose verdict has an event of its own.
    """

    row: MemberRow
    began: float
    tokens: int = 0
    asker: MemberRow | None = None
    is_review: bool = False


@dataclass(slots=True)
class Board:
    """The members of a run, nested as their teams are."""

    team: str = ""
    began: float | None = None
    ended: bool = False
    tokens: int = 0
    turns: dict[str, OpenTurn] = field(default_factory=dict[str, OpenTurn])
    levels: BudgetLevels = field(default_factory=BudgetLevels)
    _top: MemberRow = field(default_factory=lambda: MemberRow("", -1))
    _count: int = 0
    last: float = 0.0
    """The time of the newest event."""

    def apply(self, event: Event | AnyDelta) -> None:
        self._count += 1
        if not isinstance(event, Event):
            self._stream(event)
        else:
            self._apply_event(event)
            self.levels.apply(event)
            self.last = event.time

    def elapsed(self, now: float) -> float:
        """Seconds with a driver until now."""
        return self._top.elapsed(now)

    def _apply_event(self, item: Event) -> None:
        match item.fact:
            case RunStarted():
                self.team, self.began = item.fact.team, item.time
                self._top.since = item.time
            case RunResumed():
                self._resume(item.time)
            case RunPaused() | RunInterrupted() | RunQueued() | RunEnded():
                self._stop(item)
            case AgentAsked():
                self._asked(item, item.fact)
            case TeamStarted():
                self._add_members(item.scope, item.fact.members)
            case AgentReplied() | AgentFailed():
                self._answered(item, item.fact)
            case _:
                self._apply_inside(item)

    def row_of(self, scope: str) -> MemberRow | None:
        turn = self.turn_of(scope)
        return turn.row if turn else None

    def turn_of(self, scope: str) -> OpenTurn | None:
        """The innermost open ask around a scope."""
        return self.turns.get(nearest_key(scope, self.turns))

    def rows(self) -> Iterator[MemberRow]:
        """Every row, members below their team."""
        yield from _below(self._top)

    def _add_members(self, scope: str, members: tuple[str, ...]) -> None:
        team = self.row_of(scope) or self._top
        for member in members:
            _member(team, member)

    def _asked(self, event: Event, fact: AgentAsked) -> None:
        around = self.row_of(event.scope)
        row, asker = _member(around or self._top, fact.member), None if around is None or around.is_team else around
        is_review = fact.purpose == "judge" and fact.member_kind == EVALUATOR
        self.turns[event.key] = OpenTurn(row, event.time, asker=asker, is_review=is_review)
        if asker is not None:
            row.is_tool = True
            self._set(asker, "delegating", fact.member)
        row.is_team = fact.member_kind == "team"
        row.turns += 1
        row.since = event.time if row.since is None else row.since
        self._set(row, "thinking")
        row.streamed, row.written = "", 0

    def _answered(self, event: Event, fact: AgentReplied | AgentFailed) -> None:
        turn = self.turns.pop(event.key, None)
        if turn is None:
            return
        row = turn.row
        if turn.asker is not None and not any(other.asker is turn.asker for other in self.turns.values()):
            self._set(turn.asker, "thinking")
        if not any(other.row is row for other in self.turns.values()):
            row.seconds, row.since = row.elapsed(event.time), None
            row.streamed, row.written = "", 0
            if isinstance(fact, AgentReplied):
                self._set(row, "done")
            else:
                self._set(row, "stopped" if fact.error == "cancelled" else "failed", fact.error)

    def _apply_inside(self, event: Event) -> None:
        turn = self.turn_of(event.scope)
        row = turn.row if turn else None
        match event.fact:
            case AgentReturned() as fact:
                self._add_tokens(event.scope, fact.usage.total_tokens)
                if row:
                    self._set(row, "thinking")
            case AgentCalled(method=str(), name=name) if row:
                self._set(row, "listing", name)
            case AgentCalled(effect="tool") as fact if row:
                self._set(row, "calling", fact.name)
            case AgentProgressed(name=name, text=text, done=done) if row:
                share = "" if done is None else f" {done:.0%}"
                self._set(row, "calling", f"{name}: {text}{share}")
            case AgentCalled() if row:
                row.streamed, row.written = "", 0
                self._set(row, "thinking")
            case AgentCallFailed() as fact if row:
                self._set(row, "retrying" if fact.retry_in is not None else "thinking", fact.error)
            case PersonAsked() if row:
                self._set(row, "asking")
            case PersonAnswered() if row:
                self._set(row, "thinking")
            case _:
                pass

    def _add_tokens(self, scope: str, tokens: int) -> None:
        """Add tokens to the run and to every open turn around a scope."""
        self.tokens += tokens
        for around in key_and_parents(scope):
            if turn := self.turns.get(around):
                turn.tokens += tokens
                turn.row.tokens += tokens

    def _stream(self, delta: AnyDelta) -> None:
        """Show the part of the response that the model is writing now; a member that prepares a call has a detail."""
        row = self.row_of(delta.key)
        if row is None:
            return
        part = delta.kind, delta.call if isinstance(delta, ArgumentsDelta) else 0
        if delta.offset == 0:
            row.masked[part] = MaskedStream()
        if part not in row.masked:
            return
        if delta.offset == 0 or part != row.part:
            row.streamed, row.part = "", part
        row.written += len(delta.text)
        row.streamed = (row.streamed + row.masked[part].feed(delta.text))[-MOST_STREAMED:]
        state = "thinking" if isinstance(delta, ThinkingDelta) else "streaming"
        self._set(row, state, delta.tool if isinstance(delta, ArgumentsDelta) else "")

    def _resume(self, time: float) -> None:
        """Restart the clocks of open turns; the time without a driver does not count."""
        self._top.seconds, self._top.since = self._top.elapsed(self.last), time
        for turn in self.turns.values():
            turn.began = time
            turn.row.seconds, turn.row.since = turn.row.elapsed(self.last), time
            self._set(turn.row, "thinking")

    def _stop(self, event: Event) -> None:
        self.ended = event.kind == "run.ended"
        self._top.seconds, self._top.since = self._top.elapsed(event.time), None
        for turn in self.turns.values():
            turn.row.seconds, turn.row.since = turn.row.elapsed(event.time), None
            if self.ended:
                self._set(turn.row, "stopped")

    def _set(self, row: MemberRow, state: State, detail: str = "") -> None:
        row.state, row.detail, row.last_change = state, detail, self._count


def _member(team: MemberRow, name: str) -> MemberRow:
    if name not in team.members:
        team.members[name] = MemberRow(name, team.depth + 1)
    return team.members[name]


def _below(team: MemberRow) -> Iterator[MemberRow]:
    for row in team.members.values():
        yield row
        yield from _below(row)
