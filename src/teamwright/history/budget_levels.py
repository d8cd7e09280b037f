"""The limits, spend and reservations of each budget level, folded from events, live or afterwards.

Reporting only: the ledger decides whether a call may start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from teamwright.history.record.charges import DriverTime
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.budget import BudgetOpened, BudgetRaised
from teamwright.values.events.event import Event, fold
from teamwright.values.events.run import RunEnded, ScopeWaited
from teamwright.values.key import in_scope, key_and_parents
from teamwright.values.limits import ONE_CALL, Amounts, Bounds, Cost, add_cost, charge_for, dollars, picodollars
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
