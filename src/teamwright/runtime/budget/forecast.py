"""Forecasts what a team will have spent at its end, from its strategy's estimate and what its asks were charged so far.

Pure: the same estimate and the same charges give the same forecast.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

from teamwright.runtime.budget.ledger import Account
from teamwright.strategies.protocol import ExpectedAsks
from teamwright.values.run_keys import relative_key, root_key
from teamwright.values.usage_and_prices import BUDGET_UNITS, TOKENS, USD, BudgetUnit

LEAST_FOR_TREND = 3
"""Asks after which their costs show a trend: prompts grow with the conversation."""


class Pressure(NamedTuple):
    """The forecast against the tightest limit: with a `share` above 1 the budget will not last."""

    share: float
    what: BudgetUnit
    forecast: float
    limit: float


class Trend(NamedTuple):
    """What the next ask will cost, and by how much each further one costs more."""

    next: float = 0.0
    growth: float = 0.0

    def total(self, asks: int) -> float:
        """Return the cost of so many asks from the next one on."""
        return asks * self.next + self.growth * asks * (asks - 1) / 2

    def times(self, factor: float) -> Trend:
        """Return the trend of asks that cost so many times as much."""
        return Trend(self.next * factor, self.growth * factor)


Trends = tuple[Trend, Trend]
"""The trends of tokens and money, by the index of their unit."""


class CostSeries:
    """The costs of asks in their order, as the sums that their trend needs: adding one takes the same time always."""

    __slots__ = ("_by_place", "_squares", "_sum", "count", "first")

    def __init__(self) -> None:
        self.first: float | None = None
        self.count = 0
        self._sum = self._by_place = self._squares = 0.0

    def add(self, cost: float) -> None:
        if self.first is None:
            self.first = cost
        self._sum += cost
        self._by_place += self.count * cost
        self._squares += cost**2
        self.count += 1

    def trend(self) -> Trend:
        """Return the trend of the costs, by least squares; it never falls. Expects at least one cost.

        The growth is reduced by its standard error: the lengths of a few replies differ without a trend.
        """
        count, mean = self.count, self._sum / self.count
        if count < LEAST_FOR_TREND:
            return Trend(mean)
        middle, spread = (count - 1) / 2, count * (count**2 - 1) / 12
        slope = (self._by_place - middle * self._sum) / spread
        residual = max(0.0, self._squares - self._sum * mean - slope**2 * spread)
        growth = max(0.0, slope - sqrt(residual / (count - 2) / spread))
        return Trend(mean + growth * (count - middle), growth)


class Forecast:
    """The asks that a team has done and those still expected.

    An ask is weighed by its estimate, one without an estimate by the mean of the others. What other asks cost, such as
    the talk of a lead, counts towards the next expected one. Where nothing is known of the asks to come, one more
    is expected, besides what is kept back for closing. `path` is the scope of the team, `closing` the number of its
    closing asks, and `charged` returns what it was charged in all, in tokens and picodollars.
    """

    def __init__(
        self,
        expected_asks: ExpectedAsks,
        path: str = "",
        closing: int = 0,
        charged: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._path, self._closing, self._charged = path, closing, charged
        self._counted = [0, 0]
        self._is_known = bool(expected_asks)
        estimates = [tokens for tokens in expected_asks.values() if tokens]
        self._is_estimated = bool(estimates)
        usual = sum(estimates) / len(estimates) if estimates else 1.0
        self._expected = {key: float(tokens or usual) for key, tokens in expected_asks.items()}
        self._weight = sum(self._expected.values())
        self._others: tuple[int, int] = (0, 0)
        self._costs = CostSeries(), CostSeries()
        self._earlier: Trends | None = None
        self.asks_ended: int = 0

    def ask_ended(self, key: str, charged: tuple[int, int]) -> None:
        """Count the ask with this key, and what it was charged, in tokens and picodollars."""
        self.asks_ended += 1
        key = relative_key(key, self._path)
        tokens, usd = charged[TOKENS] + self._others[TOKENS], charged[USD] + self._others[USD]
        known = key if key in self._expected else root_key(key)
        if known not in self._expected and self._is_known:
            self._others = tokens, usd
            return
        self._counted[TOKENS] += tokens
        self._counted[USD] += usd
        weight = 1.0
        if known in self._expected:
            weight = self._expected.pop(known)
            self._weight -= weight
        self._costs[TOKENS].add(tokens / weight)
        self._costs[USD].add(usd / weight)
        self._others = (0, 0)

    @property
    def trends(self) -> Trends | None:
        """The trends since the team last changed what it cuts back; `None` while there is nothing to go by."""
        if self.first_costs is not None:
            trends = self._costs[TOKENS].trend(), self._costs[USD].trend()
            if self._earlier is None or self._costs[TOKENS].count >= LEAST_FOR_TREND:
                return trends
            tokens, usd = map(min, trends, self._earlier)
            return tokens, usd
        return self._earlier or ((Trend(1.0), Trend()) if self._is_estimated else None)

    @property
    def first_costs(self) -> tuple[float, float] | None:
        """What the first ask cost since the team last changed what it cuts back."""
        tokens, usd = self._costs[TOKENS].first, self._costs[USD].first
        return None if tokens is None or usd is None else (tokens, usd)

    def restart_trends(self) -> None:
        """Take only the asks from now on as typical, because the team cuts back something or no longer does."""
        self._earlier = self.trends
        self._costs = CostSeries(), CostSeries()

    def remaining(self, closing: int, begun: int) -> tuple[float, float] | None:
        """Return the tokens and picodollars of all asks to come but the closing ones; `None` with nothing to go by.

        Where the strategy does not know them, they are those that run or are queued.
        """
        if (trends := self.trends) is None:
            return None
        count = max(0, len(self._expected) - closing) if self._is_known else begun
        usual = self._weight / len(self._expected) if self._expected else 1.0
        tokens, usd = (max(0.0, usual * trends[index].total(count) - self._early(index)) for index in (TOKENS, USD))
        return tokens, usd

    def _early(self, index: int) -> int:
        """Return what was charged already for the expected asks to come: by asks that still run, and by talk."""
        return 0 if self._charged is None else max(0, self._charged()[index] - self._counted[index])

    def pressure(self, account: Account, trends: Trends | None = None) -> Pressure | None:
        """Return the limit that the team's work will come closest to; `None` while there is nothing to go by.

        `trends` are those to assume in place of the current ones.
        """
        assumed = trends or self.trends
        if assumed is None:
            return None
        found: list[Pressure] = []
        count = len(self._expected)
        usual = self._weight / count if count else 1.0
        for index in (TOKENS, USD):
            remaining, next_ask = usual * assumed[index].total(count), usual * assumed[index].next
            others = max(0.0, usual * assumed[index].total(max(0, count - self._closing)) - self._early(index))
            for level in account.chain():
                for bound, limit in level.bounds:
                    if bound == index:
                        kept = level.kept[index]  # the closing asks, whose prompts are larger than those of others
                        at_least = level.likely[index] + kept + next_ask
                        forecast = level.spent[index] + max(others + kept if kept else remaining, at_least)
                        found.append(Pressure(forecast / max(1, limit), BUDGET_UNITS[index], forecast, limit))
        return max(found, default=None)
