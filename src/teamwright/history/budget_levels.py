"""What each level of a run may spend, has spent and holds: a reading of its events, the same live and afterwards.

It only tells. What a call is let through by is the ledger, which the record is written from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from teamwright.budget.ledger import ONE_CALL, Cost, add_cost, charge_for
from teamwright.budget.money import dollars, picodollars
from teamwright.history.driver_time import DriverTime
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.budget import BudgetOpened
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.events.run import RunEnded, ScopeWaited
from teamwright.values.key import in_scope, key_and_parents
from teamwright.values.limits.usage import Amounts, Bounds
from teamwright.values.models import JsonValue


@dataclass(slots=True)
class Level:
    """One scope that has limits of its own; the run's own has no name. Money is in picodollars.

    The run and a turn end with their own ending. A part of a team's work has none in the record: it goes on while a
    turn in it is open, of which `turns` counts how many, and its time is that up to the last thing that happened in it.
    """

    scope: str
    limits: Bounds
    began: float
    spent: list[int] = field(default_factory=lambda: [0, 0, 0])
    held: list[int] = field(default_factory=lambda: [0, 0, 0])
    waited: float = 0.0
    ended: float | None = None
    turns: int = 0

    def used(self, now: float) -> Amounts:
        """What was charged here, and for how long it was worked on."""
        seconds = (now if self.ended is None else self.ended) - self.began - self.waited
        return _amounts(self.spent).changed(seconds=round(max(0.0, seconds), 3))

    def set_aside(self) -> Amounts:
        """What calls that are out may still cost."""
        return _amounts(self.held)

    def to_json(self, now: float) -> dict[str, JsonValue]:
        """As data."""
        return {
            "level": self.scope,
            "limits": self.limits.to_json(),
            "spent": self.used(now).to_json(),
            "held": self.set_aside().to_json(),
            "open": self.ended is None,
        }


@dataclass(slots=True)
class BudgetLevels:
    """All levels of a run that have limits, in the order in which they began."""

    by_scope: dict[str, Level] = field(default_factory=dict[str, Level])
    _open: dict[str, Level] = field(default_factory=dict[str, Level])
    _parts: dict[str, Level] = field(default_factory=dict[str, Level])
    _turns: set[str] = field(default_factory=set[str])
    _out: dict[str, Cost] = field(default_factory=dict[str, Cost])
    _driver_time: DriverTime = field(default_factory=DriverTime)

    @classmethod
    def of(cls, events: Sequence[Event]) -> Self:
        """Read a whole record."""
        return fold(events, cls())

    def __iter__(self) -> Iterator[Level]:
        return iter(self.by_scope.values())

    @property
    def driven(self) -> float:
        """Seconds with a driver so far, by which levels begin and end."""
        return self._driver_time.seconds()

    def apply(self, event: Event) -> None:
        """Apply one event."""
        self._driver_time.apply(event)
        match event.fact:
            case BudgetOpened() as fact:
                self._begin(event.scope, fact)
            case ScopeWaited(seconds=seconds) if event.scope in self.by_scope:
                self.by_scope[event.scope].waited += seconds
            case AgentAsked():
                self._turns.add(event.key)
                self._go_on(event.scope, 1)
            case AgentReplied() | AgentFailed():
                self._turns.discard(event.key)
                self._go_on(event.scope, -1)
                self._end(event.key)
            case RunEnded():
                self._end("")
            case _:
                if self.by_scope:
                    self._call(event)
                    self._go_on(event.scope, 0)

    def _begin(self, scope: str, fact: BudgetOpened) -> None:
        before = fact.spent or Amounts()
        spent = [before.tokens or 0, picodollars(before.usd), before.calls or 0]
        level = self.by_scope[scope] = Level(scope, fact.limits, self.driven, spent)
        if not scope or scope in self._turns:
            self._open[scope] = level
        else:
            self._parts[scope] = level
            self._go_on(scope, sum(1 for key in self._turns if in_scope(key, scope)))

    def _go_on(self, scope: str, turns: int) -> None:
        """Something happened in a scope, and so many more turns are open in it."""
        if not self._parts:
            return
        for around in key_and_parents(scope):
            if part := self._parts.get(around):
                part.turns += turns
                part.ended = None if part.turns else self.driven

    def _call(self, event: Event) -> None:
        key, fact = event.key, event.fact
        match fact:
            case AgentCalled():
                self._settle(key, self._out.get(key))  # the attempt before was in doubt and stays charged in full
                cost = Cost(fact.reserved, picodollars(fact.reserved_usd))
                self._out[key] = cost
                for level in self._around(event.scope):
                    add_cost(level.held, cost)
            case AgentReturned():
                self._settle(key, charge_for(fact.usage, self._out.get(key, ONE_CALL)))
            case AgentCallFailed():
                self._settle(key, self._out.get(key, ONE_CALL) if fact.charged else ONE_CALL)
            case _:
                pass

    def _settle(self, key: str, cost: Cost | None) -> None:
        """A call is no longer out, and this is what it is charged."""
        if cost is None:
            return
        held = self._out.pop(key, None)
        for level in self._around(key):
            if held is not None:
                add_cost(level.held, held, -1)
            add_cost(level.spent, cost)

    def _end(self, scope: str) -> None:
        """An ask is over, or the run: what was out in it was stopped, and stays charged in full."""
        for key in [one for one in self._out if in_scope(one, scope)]:
            self._settle(key, self._out[key])
        for inner in [one for one in self._open if in_scope(one, scope)]:
            self._open.pop(inner).ended = self.driven
        for inner in [one for one in self._parts if in_scope(one, scope)]:
            part = self._parts.pop(inner)
            part.ended = self.driven if part.ended is None else part.ended

    def _around(self, scope: str) -> Iterator[Level]:
        return (self.by_scope[around] for around in key_and_parents(scope) if around in self.by_scope)


def _amounts(sums: list[int]) -> Amounts:
    tokens, usd, calls = sums
    return Amounts(tokens=tokens, usd=dollars(usd), calls=calls)
