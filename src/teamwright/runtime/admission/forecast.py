"""What a team will have spent when it is done, from what its strategy expects and what its turns have cost so far.

Pure: the same outlook and the same costs give the same forecast.
"""

from __future__ import annotations

from typing import NamedTuple

from teamwright.budget.ledger import BUDGET_UNITS, TOKENS, USD, Account, BudgetUnit
from teamwright.budget.money import picodollars
from teamwright.strategies.protocol import Outlook
from teamwright.values.key import root_key
from teamwright.values.limits.usage import Usage


class Pressure(NamedTuple):
    """How the forecast stands to the tightest limit: above 1, the budget will not last."""

    share: float
    what: BudgetUnit
    forecast: float
    limit: float


class Forecast:
    """The work of one team: what of it is done, and what is left."""

    def __init__(self, outlook: Outlook) -> None:
        self._left = dict(outlook)
        self._done_tokens = 0
        self.done: int = 0

    def heard(self, key: str) -> None:
        """An ask with this key, within the team, has ended."""
        for known in (key, root_key(key)):
            if known in self._left:
                self._done_tokens += self._left.pop(known)
                self.done += 1
                return

    def pressure(self, used: Usage, account: Account) -> Pressure | None:
        """The limit around the team that its work will come closest to; nothing while nobody can know.

        `used` is what the team has used so far.
        """
        found: list[Pressure] = []
        for index, so_far in ((TOKENS, used.total_tokens), (USD, picodollars(used.usd))):
            to_come = self._to_come(so_far, estimated=index == TOKENS)
            if to_come is None:
                continue
            for level in account.chain():
                for bound, limit in level.bounds:
                    if bound == index:
                        forecast = level.spent[index] + to_come
                        found.append(Pressure(forecast / max(1, limit), BUDGET_UNITS[index], forecast, limit))
        return max(found, default=None)

    def _to_come(self, so_far: int, *, estimated: bool) -> float | None:
        """What the rest will take: its estimates, corrected by what the estimated cost so far; else the usual cost."""
        expected = sum(self._left.values())
        if self._done_tokens:
            return so_far * expected / self._done_tokens
        if self.done:
            return so_far * len(self._left) / self.done
        return float(expected) if expected and estimated else None
