"""The live state of each member of a run, and the limits, spend and reservations of each budget level, folded from
events.

Reporting only: it reads no clock and writes nowhere, and the ledger decides whether a call may start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from teamwright.agents.evaluators import EVALUATOR
from teamwright.history.recorded_charges import DriverTime
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentProgressed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.budget import BudgetOpened, BudgetRaised
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Event, ThinkingDelta, fold
from teamwright.values.events.run import (
    PersonAnswered,
    PersonAsked,
    RunEnded,
    RunInterrupted,
    RunPaused,
    RunQueued,
    RunResumed,
    RunStarted,
    ScopeWaited,
)
from teamwright.values.events.team import TeamStarted
from teamwright.values.limits import Amounts, Bounds
from teamwright.values.run_keys import in_scope, key_and_parents, nearest_key
from teamwright.values.text.secrets import MaskedStream
from teamwright.values.usage_and_prices import ONE_CALL, Cost, add_cost, charge_for, dollars, picodollars
from teamwright.values.value import JsonValue


@dataclass(slots=True)
class Level:
    """A scope that has its own limits; the scope of the run is empty. Money is in picodollars.

    The run and each turn have a recorded ending. A named part of a team's work has none: it is open while it has open
    turns, which `turns` counts, and its time ends with the last event in it.
    """

    scope: str
    limits: Bounds
    began: float
    spent: list[int] = field(default_factory=lambda: [0, 0, 0])
    held: list[int] = field(default_factory=lambda: [0, 0, 0])
    unreported: list[int] = field(default_factory=lambda: [0, 0, 0])
    """The part of `spent` that no call has reported: reservations of calls that were in doubt, stopped or cut off."""
    waited: float = 0.0
    ended: float | None = None
    turns: int = 0

    def used(self, now: float) -> Amounts:
        """The charges and the working time of this level."""
        seconds = (now if self.ended is None else self.ended) - self.began - self.waited
        return _amounts(self.spent).changed(seconds=round(max(0.0, seconds), 3))

    def reserved(self) -> Amounts:
        """The reservations of calls in flight."""
        return _amounts(self.held)

    def of_unknown_cost(self) -> Amounts:
        """The charges for calls that have not said what they cost."""
        return _amounts(self.unreported)

    def to_json(self, now: float) -> dict[str, JsonValue]:
        return {
            "level": self.scope,
            "limits": self.limits.to_json(),
            "spent": self.used(now).to_json(),
            "held": self.reserved().to_json(),
            "open": self.ended is None,
        }


@dataclass(slots=True)
class BudgetLevels:
    """All levels of a run that have limits, in the order in which they opened."""

    by_scope: dict[str, Level] = field(default_factory=dict[str, Level])
    _open: dict[str, Level] = field(default_factory=dict[str, Level])
    _parts: dict[str, Level] = field(default_factory=dict[str, Level])
    _turns: set[str] = field(default_factory=set[str])
    _in_flight: dict[str, Cost] = field(default_factory=dict[str, Cost])
    _driver_time: DriverTime = field(default_factory=DriverTime)

    @classmethod
    def from_events(cls, events: Sequence[Event]) -> Self:
        return fold(events, cls())

    def __iter__(self) -> Iterator[Level]:
        return iter(self.by_scope.values())

    @property
    def driver_seconds(self) -> float:
        """Seconds with a driver so far, the clock by which levels begin and end."""
        return self._driver_time.seconds()

    def apply(self, event: Event) -> None:
        self._driver_time.apply(event)
        match event.fact:
            case BudgetOpened() as fact:
                self._begin(event.scope, fact)
            case BudgetRaised(limits=limits) if event.scope in self.by_scope:
                self.by_scope[event.scope].limits = limits
            case ScopeWaited(seconds=seconds) if event.scope in self.by_scope:
                self.by_scope[event.scope].waited += seconds
            case AgentAsked():
                self._turns.add(event.key)
                self._count_turns(event.scope, 1)
            case AgentReplied() | AgentFailed():
                self._turns.discard(event.key)
                self._count_turns(event.scope, -1)
                self._end(event.key)
            case RunEnded():
                self._end("")
            case _:
                if self.by_scope:
                    self._call(event)
                    self._count_turns(event.scope, 0)

    def _begin(self, scope: str, fact: BudgetOpened) -> None:
        before = fact.spent or Amounts()
        spent = [before.tokens or 0, picodollars(before.usd), before.calls or 0]
        level = self.by_scope[scope] = Level(scope, fact.limits, self.driver_seconds, spent)
        if not scope or scope in self._turns:
            self._open[scope] = level
        else:
            self._parts[scope] = level
            self._count_turns(scope, sum(1 for key in self._turns if in_scope(key, scope)))

    def _count_turns(self, scope: str, turns: int) -> None:
        """Add to the open turns of every part around a scope; a part without any ends now."""
        if not self._parts:
            return
        for around in key_and_parents(scope):
            if part := self._parts.get(around):
                part.turns += turns
                part.ended = None if part.turns else self.driver_seconds

    def _call(self, event: Event) -> None:
        key, fact = event.key, event.fact
        match fact:
            case AgentCalled():
                self._settle(key, self._in_flight.get(key))  # an attempt in doubt stays charged in full
                cost = Cost(fact.reserved, picodollars(fact.reserved_usd))
                self._in_flight[key] = cost
                for level in self._around(event.scope):
                    add_cost(level.held, cost)
            case AgentReturned():
                reserved, is_partial = self._in_flight.get(key, ONE_CALL), fact.partial_usage is not None
                said = Cost(fact.usage.total_tokens, picodollars(fact.usage.usd))
                self._settle(key, charge_for(fact.usage, reserved, is_partial=is_partial), said)
            case AgentCallFailed():
                self._settle(key, self._in_flight.get(key, ONE_CALL) if fact.charged else ONE_CALL)
            case _:
                pass

    def _settle(self, key: str, cost: Cost | None, reported: Cost = ONE_CALL) -> None:
        """Release the reservation of a call and charge its cost, of which the call has reported a part."""
        if cost is None:
            return
        held = self._in_flight.pop(key, None)
        for level in self._around(key):
            if held is not None:
                add_cost(level.held, held, -1)
            add_cost(level.spent, cost)
            add_cost(level.unreported, cost)
            add_cost(level.unreported, reported, -1)

    def _end(self, scope: str) -> None:
        """Close an ask or the run: calls still in flight in it were stopped, and stay charged in full."""
        for key in [one for one in self._in_flight if in_scope(one, scope)]:
            self._settle(key, self._in_flight[key])
        for inner in [one for one in self._open if in_scope(one, scope)]:
            self._open.pop(inner).ended = self.driver_seconds
        for inner in [one for one in self._parts if in_scope(one, scope)]:
            part = self._parts.pop(inner)
            part.ended = self.driver_seconds if part.ended is None else part.ended

    def _around(self, scope: str) -> Iterator[Level]:
        return (self.by_scope[around] for around in key_and_parents(scope) if around in self.by_scope)


def _amounts(sums: list[int]) -> Amounts:
    tokens, usd, calls = sums
    return Amounts(tokens=tokens, usd=dollars(usd), calls=calls)


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
