"""What calls use, what that costs, and what they are charged.

Money is counted in whole picodollars and sums are exact integers, so that their order doesn't matter. Unknown usage is
charged as it was reserved.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field
from typing_extensions import override

from teamwright.values.value import JsonValue, Record, Value

MOST_TOKENS = 10**9
MOST_USD = 10.0**6
"""The most that one call may report: more is not plausible, and its sums would overflow a record."""
MOST_IN_ALL = 2**63 - 1


class Usage(Record, frozen=True):
    """Requests, tokens, tool calls and money; usages can be added.

    `saved_usd` is what prompt caching saved: the price of the same tokens without a cache, less `usd`. It is negative
    where more was written to a cache than was read from it.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    tool_calls: int = 0
    usd: float | None = None
    saved_usd: float | None = None

    def __post_init__(self) -> None:
        usd = self.usd or 0.0
        counts = (
            self.requests, self.input_tokens, self.output_tokens, self.cached_tokens, self.reasoning_tokens,
            self.tool_calls, usd,
        )  # fmt: skip
        if min(counts) < 0:
            raise ValueError(f"a usage can't be negative: {self!r}")
        saved = self.saved_usd or 0.0
        if max(counts) > MOST_IN_ALL or usd != usd or not abs(saved) <= MOST_IN_ALL:  # noqa: PLR0124 - a NaN is neither
            raise ValueError(f"a usage can't be this large: {self!r}")

    @property
    def is_plausible(self) -> bool:
        """Whether a single call can have used this much."""
        usd = self.usd or 0.0
        most = max(self.requests, self.input_tokens, self.output_tokens, self.tool_calls)
        return most <= MOST_TOKENS and usd <= MOST_USD

    @property
    def total_tokens(self) -> int:
        """Input and output tokens, which include cached and reasoning tokens."""
        return self.input_tokens + self.output_tokens

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data, with the total."""
        return super().to_json() | {"total_tokens": self.total_tokens}

    def __add__(self, other: Usage) -> Usage:
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        return Usage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            tool_calls=self.tool_calls + other.tool_calls,
            usd=add_usd(self.usd, other.usd),
            saved_usd=add_usd(self.saved_usd, other.saved_usd),
        )


NOTHING = Usage()


def add_usd(one: float | None, other: float | None) -> float | None:
    """Add two amounts of money, rounded to the picodollar so that float sums don't drift; None is unknown."""
    if one is None or other is None:
        return other if one is None else one
    return round(one + other, 12)


class Price(Value):
    """The price of a model, in US dollars per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False, description="a million input tokens")
    output: float = Field(ge=0, allow_inf_nan=False, description="a million output tokens")
    cache: float | None = Field(
        default=None,
        ge=0,
        allow_inf_nan=False,
        description="a million cached input tokens; the price of input by default",
    )

    def cost(self, usage: Usage) -> float:
        """Return the cost of this usage in US dollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        price_of_cached = self.input if self.cache is None else self.cache
        return round((fresh * self.input + cached * price_of_cached + usage.output_tokens * self.output) / 1e6, 12)

    def saved(self, usage: Usage) -> float:
        """Return what cached tokens saved in US dollars."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        return 0.0 if self.cache is None else round(cached * (self.input - self.cache) / 1e6, 12)


PICODOLLARS = 10**12
"""Picodollars in one dollar."""
LARGEST = 1e18
"""The largest amount in dollars, of either sign; larger ones are clamped to it, so that nothing overflows."""
BudgetUnit = Literal["tokens", "usd", "calls"]
BUDGET_UNITS: tuple[BudgetUnit, ...] = ("tokens", "usd", "calls")
"""What an account counts, in the order of its sums; money is in picodollars."""
TOKENS, USD, CALLS = range(3)


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
