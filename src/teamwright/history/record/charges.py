"""What a recorded run has spent: the total of each scope, and the time in which a driver was attached to it.

An ended turn is charged by the tally in its ending, so that the events inside it need not be read. On resume, the
account of a scope starts from these totals, with the charges of turns that were open when its record ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Literal

from teamwright.history.record.asks import RecordedAsk
from teamwright.values.events.agent import AgentFailed, AgentReplied, Tally
from teamwright.values.events.budget import (
    BudgetDegraded,
    BudgetExceeded,
    BudgetMisreported,
    BudgetOpened,
    BudgetUnpriced,
    exceeded_text,
)
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunInterrupted, RunPaused, RunQueued, RunResumed, RunStarted
from teamwright.values.key import key_and_parents
from teamwright.values.limits import NOTHING, BudgetUnit, Cost, Usage, picodollars


class Charges:
    """The sum of the charges within a scope, money in picodollars, and the marks that its calls returned.

    `refused` is what the last call that was refused did not get.
    """

    __slots__ = ("calls", "marks", "refused", "tokens", "usd")

    def __init__(self) -> None:
        self.tokens = self.usd = self.calls = 0
        self.marks: tuple[str, ...] = ()
        self.refused: BudgetUnit | None = None

    @property
    def cost(self) -> Cost:
        return Cost(self.tokens, self.usd, self.calls)

    def add(self, tokens: int, usd: int, calls: int) -> None:
        """Add a charge; a negative one is a refund."""
        self.tokens += tokens
        self.usd += usd
        self.calls += calls


class OpenTurnCharges(Charges):
    """The charges of a turn that has no recorded ending, in total and by scope."""

    __slots__ = ("scopes",)

    def __init__(self) -> None:
        super().__init__()
        self.scopes: dict[str, Charges] = {}


class RecordedCharges:
    """The charges of a run by scope, those of its open turns, and the marks that each member's calls returned."""

    __slots__ = ("by_scope", "marks", "open_turns")

    def __init__(self) -> None:
        self.by_scope: defaultdict[str, Charges] = defaultdict(Charges)
        self.open_turns: dict[str, OpenTurnCharges] = {}
        self.marks: Counter[tuple[str, str]] = Counter()

    def end_turn(self, key: str, scope: str, ask: RecordedAsk) -> None:
        """Charge an ended turn to the scopes around it, by the tally in its ending."""
        self.open_turns.pop(key, None)
        self._charge_turn(scope, ask, 1)

    def refund_turn(self, scope: str, ask: RecordedAsk) -> None:
        """Undo the charge of an ended turn."""
        self._charge_turn(scope, ask, -1)

    def charge_effect(self, turn: str, scope: str, cost: Cost, mark: str | None = None) -> None:
        """Charge an effect to the open turn that it belongs to."""
        charges = self.open_turns.setdefault(turn, OpenTurnCharges())
        charges.add(*cost)
        charges.scopes.setdefault(scope, Charges()).add(*cost)
        if mark:
            charges.marks += (mark,)

    def charge_open_turns(self, asks: Mapping[str, RecordedAsk]) -> None:
        for turn, charges in self.open_turns.items():
            for scope, part in charges.scopes.items():
                self._charge(scope, *part.cost)
            for mark in charges.marks:
                self.marks[asks[turn].asked.member, mark] += 1

    def _charge_turn(self, scope: str, ask: RecordedAsk, times: int) -> None:
        if ask.ending is None or (tally := ask.ending.tally) is None:
            return
        tokens, usd = charge_of(ask.ending)
        self._charge(scope, times * tokens, times * usd, times * tally.calls)
        for mark in tally.marks:
            self.marks[ask.asked.member, mark] += times

    def _charge(self, scope: str, tokens: int, usd: int, calls: int) -> None:
        for around in key_and_parents(scope):
            self.by_scope[around].add(tokens, usd, calls)


def charge_of(ending: AgentReplied | AgentFailed) -> tuple[int, int]:
    """Return what the budget was charged for an ended turn, in tokens and picodollars."""
    return _charged(ending.usage, ending.tally)


def cost_of_run(usage: Usage, tally: Tally) -> Cost:
    """Return what a run has charged to its budget: the cost of the effect that started it."""
    return Cost(*_charged(usage, tally), tally.calls)


def _charged(usage: Usage, tally: Tally | None) -> tuple[int, int]:
    if usage is NOTHING and (tally is None or tally.charged is tally.charged_usd is None):  # a function
        return 0, 0
    tokens = usage.total_tokens if tally is None or tally.charged is None else tally.charged
    return tokens, picodollars(usage.usd if tally is None or tally.charged_usd is None else tally.charged_usd)


class RecordedBudgets:
    """The budget levels that a run has opened, their degradation, and why its limits may not have held."""

    __slots__ = ("exceeded", "misreported", "opened", "rungs", "unpriced")

    def __init__(self) -> None:
        self.opened: set[str] = set()
        self.rungs: dict[str, list[BudgetDegraded]] = {}
        self.unpriced: dict[str, BudgetUnpriced] = {}
        self.exceeded: list[BudgetExceeded] = []
        self.misreported: dict[tuple[str, str], BudgetMisreported] = {}

    def apply(self, event: Event) -> None:
        match event.fact:
            case BudgetOpened():
                self.opened.add(event.scope)
            case BudgetDegraded() as fact:
                self.rungs.setdefault(event.key, []).append(fact)
            case BudgetUnpriced() as fact:
                self.unpriced[fact.model] = fact
            case BudgetExceeded(is_warning=True) as fact:
                self.exceeded.append(fact)
            case BudgetMisreported() as fact:
                self.misreported[fact.model, fact.problem] = fact
            case _:
                pass

    def warnings(self) -> Iterator[str]:
        """Yield why the limits of the run may not have held."""
        yield from (fact.warning for fact in self.unpriced.values())
        yield from (fact.warning for fact in self.misreported.values())
        over: dict[tuple[str, Literal["tokens", "usd"]], list[float]] = {}
        for fact in self.exceeded:
            over.setdefault((fact.level, fact.what), []).append(fact.over)
        yield from (exceeded_text(*where, sum(amounts), len(amounts)) for where, amounts in over.items())


Span = tuple[float, float]
DRIVER_CHANGES = (RunStarted, RunResumed, RunPaused, RunInterrupted, RunQueued)
"""Facts that attach or detach a driver; a crashed driver counts as attached until its last event."""


class DriverTime:
    """The spans in which a run had a driver. Inherited events of a fork count as driven, by the source run.

    `last` is the time of the latest event: of the current driver or, while `copying`, of the source run of a fork.
    While a driver is attached, the last of the `spans` extends to it.
    """

    __slots__ = ("_before", "_detached", "copying", "last", "spans")

    def __init__(self) -> None:
        self.last = 0.0
        self.spans: list[Span] = []
        self._before = -inf
        self._detached = True
        self.copying = False

    def apply(self, event: Event) -> None:
        if isinstance(event.fact, DRIVER_CHANGES):
            self.apply_change(event)
        if event.time > self.last or self.copying:
            self.last = event.time

    def apply_change(self, event: Event) -> None:
        """Apply one of `DRIVER_CHANGES`; time after a driver has detached does not count."""
        match event.fact:
            case RunStarted(origin=origin) if origin is not None and origin.how == "fork":
                self.copying = True
            case RunPaused() | RunInterrupted() | RunQueued():
                self._detach(event.time)
            case _:
                if self.copying:
                    self._before, self.copying = self.last, False
                self._detach(self.last)
                self.spans.append((event.time, event.time))
                self.last, self._detached = event.time, False

    def seconds(self, since: float = -inf) -> float:
        """Seconds in which this run had a driver, from `since` to the latest event."""
        return sum(max(0.0, end - max(begin, since)) for begin, end in self._own())

    def busy_seconds(self, begin: float, end: float, waits: Sequence[Span]) -> float:
        """Seconds with a driver between two times, minus the waits, which may overlap."""
        waited = _merged(waits)
        before = (-inf, self.last if self.copying else self._before)
        total = 0.0
        for since, until in (before, *self._own()):
            inside = max(begin, since), min(end, until)
            total += max(0.0, inside[1] - inside[0])
            total -= sum(max(0.0, min(inside[1], one[1]) - max(inside[0], one[0])) for one in waited)
        return max(0.0, total)

    def _own(self) -> Sequence[Span]:
        return self.spans if self._detached else [*self.spans[:-1], _until(self.spans[-1], self.last)]

    def _detach(self, time: float) -> None:
        if not self._detached:
            self.spans[-1] = _until(self.spans[-1], time)
            self._detached = True


def _until(span: Span, time: float) -> Span:
    return span[0], max(span[0], time)


def _merged(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
