"""Forecasts what a team will have spent at its end, from its strategy's estimate and the cost of its turns so far.

Pure: the same estimate and the same costs give the same forecast.
"""

from __future__ import annotations

from typing import NamedTuple

from teamwright.budget.ledger import BUDGET_UNITS, TOKENS, USD, Account, BudgetUnit
from teamwright.budget.money import picodollars
from teamwright.strategies.protocol import Outlook
from teamwright.values.key import root_key
from teamwright.values.limits.usage import Usage


class Pressure(NamedTuple):
    """The forecast against the tightest limit: with a `share` above 1 the budget will not last."""

    share: float
    what: BudgetUnit
    forecast: float
    limit: float


class Forecast:
    """The asks that a team has done and those still expected."""

    def __init__(self, outlook: Outlook) -> None:
        self._expected = dict(outlook)
        self._done_tokens = 0
        self.asks_done: int = 0

    def ask_ended(self, key: str) -> None:
        """Count the ask with this key, relative to the team, as done."""
        for known in (key, root_key(key)):
            if known in self._expected:
                self._done_tokens += self._expected.pop(known)
                self.asks_done += 1
                return

    def pressure(self, used: Usage, account: Account) -> Pressure | None:
        """Return the limit that the team's work will come closest to; `None` while there is nothing to go by.

        `used` is the usage of the team so far.
        """
        found: list[Pressure] = []
        for index, so_far in ((TOKENS, used.total_tokens), (USD, picodollars(used.usd))):
            remaining = self._remaining_cost(so_far, estimated=index == TOKENS)
            if remaining is None:
                continue
            for level in account.chain():
                for bound, limit in level.bounds:
                    if bound == index:
                        forecast = level.spent[index] + remaining
                        found.append(Pressure(forecast / max(1, limit), BUDGET_UNITS[index], forecast, limit))
        return max(found, default=None)

    def _remaining_cost(self, so_far: int, *, estimated: bool) -> float | None:
        """Return the cost of the remaining asks: estimates scaled by actual cost, else the average so far."""
        expected = sum(self._expected.values())
        if self._done_tokens:
            return so_far * expected / self._done_tokens
        if self.asks_done:
            return so_far * len(self._expected) / self.asks_done
        return float(expected) if expected and estimated else None
