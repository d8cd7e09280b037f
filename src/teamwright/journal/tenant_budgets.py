"""The budgets of tenants: the contract of their store, and the words in which it refuses a run.

An operator sets a budget, and a run that names one reserves the most that it may spend with its first event, in one
commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from msgspec import Struct

from teamwright.errors import BudgetUnavailable, UsageError
from teamwright.values.usage_and_prices import dollars
from teamwright.values.value import JsonValue
from teamwright.wings import hint

Period = Literal["day", "week", "month", "ever"]
PERIODS: tuple[Period, ...] = get_args(Period)
"""Periods begin at midnight UTC, a week on Monday."""
PICODOLLARS = 10**12


class BudgetClaim(Struct, frozen=True):
    """What a run reserves of a budget: the most that it may spend, money in picodollars."""

    budget: str
    usd: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TenantBudget:
    """A budget in its present period, money in picodollars; a bound of `None` does not exist.

    `until` is the end of the period, empty for a budget without periods. `runs` hold reservations.
    """

    name: str
    usd: int | None
    tokens: int | None
    per: Period
    spent_usd: int = 0
    spent_tokens: int = 0
    reserved_usd: int = 0
    reserved_tokens: int = 0
    until: str = ""
    runs: int = 0

    @property
    def left_usd(self) -> int | None:
        """Money that is neither spent nor reserved."""
        return None if self.usd is None else self.usd - self.spent_usd - self.reserved_usd

    @property
    def left_tokens(self) -> int | None:
        """Tokens that are neither spent nor reserved."""
        return None if self.tokens is None else self.tokens - self.spent_tokens - self.reserved_tokens

    def to_json(self) -> dict[str, JsonValue]:
        """The budget as data, money in dollars."""

        def money(amount: int | None) -> float | None:
            return None if amount is None else dollars(amount)

        return {
            "name": self.name,
            "per": self.per,
            "until": self.until or None,
            "runs": self.runs,
            "usd": money(self.usd),
            "spent_usd": money(self.spent_usd),
            "reserved_usd": money(self.reserved_usd),
            "left_usd": money(self.left_usd),
            "tokens": self.tokens,
            "spent_tokens": self.spent_tokens,
            "reserved_tokens": self.reserved_tokens,
            "left_tokens": self.left_tokens,
        }


class Budgets(Protocol):
    """The budgets of tenants, and what runs hold of them."""

    async def put(self, name: str, usd: int | None, tokens: int | None, per: Period) -> None:
        """Set a budget, or change it; what was spent and reserved stays."""
        ...

    async def remove(self, name: str) -> bool:
        """Remove a budget; returns whether there was one. Runs that name it go on within their own limits."""
        ...

    async def all(self) -> list[TenantBudget]:
        """Return all budgets, by name."""
        ...

    async def find(self, name: str) -> TenantBudget | None: ...

    async def reserve(self, run_id: str, claim: BudgetClaim) -> None:
        """Let a run hold at least this much; raises `BudgetUnavailable`."""
        ...

    async def settle(self, run_id: str, spent: BudgetClaim | None) -> bool:
        """Replace what a run holds by what it has spent, once; by all that it holds if that is unknown."""
        ...

    async def unsettled(self) -> Sequence[tuple[str, bool]]:
        """Return the runs that hold reservations and have ended, or were deleted, and whether their record exists."""
        ...


def money_text(picodollars: int) -> str:
    """An amount of money in words; fractions of a cent are shown."""
    return f"${picodollars / PICODOLLARS:,.6f}".rstrip("0").removesuffix(".")


def tokens_text(count: int) -> str:
    """A number of tokens in words."""
    return f"{count:,} tokens"


def unknown_budget(name: str) -> UsageError:
    """The error for a budget that does not exist."""
    command = hint("set_budget", name=name)
    how = f"with  {command}" if command else "first."
    return UsageError(f"There is no budget {name!r}; the operator sets one {how}")


def unbounded_run(name: str, unit: Literal["usd", "tokens"]) -> UsageError:
    """The error for a run without a limit that its budget needs."""
    what, option = ("money", "--max-usd") if unit == "usd" else ("tokens", "--max-tokens")
    return UsageError(
        f"The budget {name!r} bounds {what}, and the run has no such limit, which would be reserved while it runs: give"
        f" it one with {option}, or in the manifest."
    )


def no_room(name: str, unit: Literal["usd", "tokens"], needed: int, left: int, most: int, until: str) -> str:
    """Say that a budget has no room for what a run may spend."""
    shown = money_text if unit == "usd" else tokens_text
    when = f" until {until}" if until else ""
    return (
        f"The budget {name!r} has {shown(max(0, left))} of {shown(most)} left{when}, and the run needs {shown(needed)}:"
        " give the run a lower limit, or wait until other runs have ended or the next period has begun."
    )


def budget_refusal(name: str, why: str, needed: int, left: int, most: int, until: str) -> BudgetUnavailable:
    """The error for what the store of budgets has refused."""
    match why:
        case "usd" | "tokens":
            return BudgetUnavailable(no_room(name, why, needed, left, most, until))
        case "no usd" | "no tokens":
            return BudgetUnavailable(str(unbounded_run(name, "usd" if why == "no usd" else "tokens")))
        case _:
            return BudgetUnavailable(str(unknown_budget(name)))
