"""What calls cost: money as whole picodollars, rates of models, and the sums that a budget counts.

Unknown usage is charged as it was reserved. Sums are exact integers, so that their order doesn't matter.
"""

from __future__ import annotations

from math import ceil
from typing import Final, Literal, NamedTuple

from teamwright.values.limits import NOTHING, Usage

PICODOLLARS = 10**12
"""Picodollars in one dollar."""
LARGEST = 1e18
"""The largest amount in dollars, of either sign; larger ones are clamped to it, so that nothing overflows."""
BYTES_PER_MESSAGE: Final = 16
"""The frame of a message in the byte bound."""
BudgetUnit = Literal["tokens", "usd", "calls"]
BUDGET_UNITS: tuple[BudgetUnit, ...] = ("tokens", "usd", "calls")
"""What an account counts, in the order of its sums; money is in picodollars."""
TOKENS, USD, CALLS = range(3)
MODEST_OUTPUT = 4096
"""An output cap of which a request may take its whole share; of a larger share it takes half."""
USEFUL_OUTPUT = 256
"""The smallest output cap, unless the request sets a smaller one itself, that is worth the cost of a prompt."""
AMPLE_OUTPUT = 1024
"""A request without an output cap learns from its prompt when it gets less than this."""
SMALL_LIMIT = 2048
"""Tokens below which a limit scales a useful output down, so that several fit into it."""


def picodollars(usd: float | None) -> int:
    """Convert dollars to picodollars; an unknown amount is 0."""
    return round(max(-LARGEST, min(usd, LARGEST)) * PICODOLLARS) if usd else 0


def dollars(amount: int) -> float:
    """Convert picodollars to dollars."""
    return amount / PICODOLLARS


class Rate(NamedTuple):
    """The highest price of one input token and of one output token, in picodollars."""

    input: int
    output: int

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Return the most that these tokens can cost, in picodollars."""
        return self.input * input_tokens + self.output * output_tokens


class Cost(NamedTuple):
    """What one call takes from an account."""

    tokens: int = 0
    usd: int = 0
    calls: int = 1


NO_COST, ONE_CALL = Cost(0, 0, 0), Cost()


def add_cost(sums: list[int], cost: Cost, times: int = 1) -> None:
    """Add a cost to sums in the order of `BUDGET_UNITS`, or subtract it with `times=-1`."""
    sums[TOKENS] += times * cost.tokens
    sums[USD] += times * cost.usd
    sums[CALLS] += times * cost.calls


def scaled_output(output: int, limit: float) -> int:
    """Return the size of an output, in proportion to a limit that is smaller than `SMALL_LIMIT` tokens."""
    return max(1, ceil(output * min(1.0, limit / SMALL_LIMIT)))


def charge_for(usage: Usage, reserved: Cost, *, is_partial: bool = False) -> Cost:
    """Return what to charge for a call that returned: its reported usage, or the reservation where it reports none.

    A call whose usage is known in part stays charged in full, or more if that part is more.
    """
    if usage is NOTHING:
        return reserved
    money = reserved.usd if usage.usd is None else picodollars(usage.usd)
    if is_partial:
        return Cost(max(usage.total_tokens, reserved.tokens), max(money, reserved.usd))
    return Cost(usage.total_tokens or reserved.tokens, money)


def refusal_text(
    level: str, what: BudgetUnit, needed: float, left: float, limit: float, kept: float = 0, why: str = ""
) -> str:
    """Describe a refusal in one sentence; `why` says why so much is counted."""
    sign, unit = ("$", "") if what == "usd" else ("", f" {what}")
    keeps = f", keeps {sign}{_amount_text(kept)} for its answer" if kept else ""
    has = f"{level or 'the run'} has {sign}{_amount_text(left)} of {sign}{_amount_text(limit)}{unit} left"
    needs = f", and the next call may need {sign}{_amount_text(needed)}" if needed else ""
    return f"{has}{keeps}{needs}" + (f" ({why})" if why else "")


def _amount_text(amount: float) -> str:
    if isinstance(amount, int) or not 0 < amount < 0.001:
        return str(amount) if isinstance(amount, int) else f"{amount:.6g}"
    return f"{amount:.12f}".rstrip("0")  # without an exponent, down to a picodollar
