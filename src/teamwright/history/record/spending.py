"""What a recorded run has spent: in total by scope, and by the turns that were open when its record ends.

An ended turn is charged by the tally in its ending, so that what was inside it need not be read. What this says of a
scope is what its account begins with when the run is resumed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from teamwright.budget.ledger import Cost
from teamwright.budget.money import picodollars
from teamwright.history.record.asks import RecordedAsk
from teamwright.values.key import key_and_parents


class Spending:
    """What was charged within a scope, money in picodollars, and which marks its returns carried."""

    __slots__ = ("calls", "marks", "tokens", "usd")

    def __init__(self) -> None:
        self.tokens = self.usd = self.calls = 0
        self.marks: tuple[str, ...] = ()

    @property
    def cost(self) -> Cost:
        """The sums so far."""
        return Cost(self.tokens, self.usd, self.calls)

    def add(self, tokens: int, usd: int, calls: int) -> None:
        """Count something more, or take it back."""
        self.tokens += tokens
        self.usd += usd
        self.calls += calls


class OpenTurn(Spending):
    """The same of a turn that had not ended when its record does, also scope by scope."""

    __slots__ = ("scopes",)

    def __init__(self) -> None:
        super().__init__()
        self.scopes: dict[str, Spending] = {}


class RecordedSpending:
    """The charges of a run by scope, those of its open turns, and the marks that each member's calls returned."""

    __slots__ = ("marks", "open", "spent")

    def __init__(self) -> None:
        self.spent: defaultdict[str, Spending] = defaultdict(Spending)
        self.open: dict[str, OpenTurn] = {}
        self.marks: Counter[tuple[str, str]] = Counter()

    def end_turn(self, key: str, scope: str, ask: RecordedAsk) -> None:
        """Charge an ended turn to the scopes around it, by the tally in its ending."""
        self.open.pop(key, None)
        self._count(scope, ask, 1)

    def take_back(self, scope: str, ask: RecordedAsk) -> None:
        """Undo the charge of an ended turn."""
        self._count(scope, ask, -1)

    def charge_effect(self, turn: str, scope: str, cost: Cost, mark: str | None = None) -> None:
        """Charge an effect to the open turn that it belongs to."""
        tally = self.open.setdefault(turn, OpenTurn())
        tally.add(*cost)
        tally.scopes.setdefault(scope, Spending()).add(*cost)
        if mark:
            tally.marks += (mark,)

    def charge_open_turns(self, asks: Mapping[str, RecordedAsk]) -> None:
        """Charge the open turns to the scopes around them."""
        for turn, tally in self.open.items():
            for scope, spending in tally.scopes.items():
                self._charge(scope, *spending.cost)
            for mark in tally.marks:
                self.marks[asks[turn].asked.member, mark] += 1

    def _count(self, scope: str, ask: RecordedAsk, times: int) -> None:
        if ask.ending is None or ask.ending.tally is None:
            return
        usage, tally = ask.ending.usage, ask.ending.tally
        tokens = usage.total_tokens if tally.charged is None else tally.charged
        usd = picodollars(usage.usd if tally.charged_usd is None else tally.charged_usd)
        self._charge(scope, times * tokens, times * usd, times * tally.calls)
        for mark in tally.marks:
            self.marks[ask.asked.member, mark] += times

    def _charge(self, scope: str, tokens: int, usd: int, calls: int) -> None:
        for around in key_and_parents(scope):
            self.spent[around].add(tokens, usd, calls)
