"""What counts and what it may not exceed: usage, its price and cost, limits and paces, forecasts, degradation.

Money is counted in whole picodollars and sums are exact integers, so that their order doesn't matter. Unknown usage is
charged as it was reserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final, Literal, NamedTuple, TypeVar, cast

from pydantic import Field
from typing_extensions import override

from teamwright.values.value import JsonValue, Record, Value

CHARACTERS_PER_TOKEN = 4
"""Characters per token in an estimate: about right for English text."""
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


class Amounts(Record, frozen=True):
    """Tokens, US dollars, calls and seconds; `None` where there is no bound."""

    tokens: int | None = None
    usd: float | None = None
    calls: int | None = None
    seconds: float | None = None

    @property
    def by_name(self) -> dict[str, float]:
        found = {"tokens": self.tokens, "usd": self.usd, "calls": self.calls, "seconds": self.seconds}
        return {name: amount for name, amount in found.items() if amount is not None}


class Bounds(Amounts, frozen=True):
    """Limits in their recorded form; `message` bounds every single model request, `strict` reserves by bytes."""

    message: Amounts | None = None
    strict: bool | None = None
    asks: int | None = None
    depth: int | None = None

    @property
    def given(self) -> dict[str, int | float | Amounts]:
        found = {name: cast("int | float | Amounts | None", getattr(self, name)) for name in self.__struct_fields__}
        return {name: bound for name, bound in found.items() if bound is not None}


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


N = TypeVar("N", int, float)


class Spend(Value):
    """An amount of tokens, of money, or of both; `None` where there is no bound."""

    tokens: int | None = Field(default=None, ge=0, le=10**12, description="input and output tokens")
    usd: float | None = Field(default=None, ge=0, le=10**9, allow_inf_nan=False, description="money, in US dollars")

    def is_exceeded_by(self, forecast: SpendForecast) -> bool:
        """Whether the 90th percentile of a forecast is above one of the amounts; an unknown amount is above."""
        pairs = ((self.tokens, forecast.tokens), (self.usd, forecast.usd))
        return any(amount is not None and (expected is None or expected.p90 > amount) for amount, expected in pairs)


class MessageLimits(Spend):
    """Upper bounds of every single model request."""

    seconds: float | None = Field(
        default=None, gt=0, le=10**9, allow_inf_nan=False, description="seconds with a driver, without waits for people"
    )

    def tightened(self, other: MessageLimits) -> MessageLimits:
        return MessageLimits(
            tokens=tighter(self.tokens, other.tokens),
            usd=tighter(self.usd, other.usd),
            seconds=tighter(self.seconds, other.seconds),
        )


class Limits(MessageLimits):
    """Upper bounds; `None` sets no bound here, and the bounds of enclosing scopes still apply."""

    calls: int | None = Field(default=None, ge=0, le=10**9, description="model requests, tool calls and function calls")
    message: MessageLimits | None = Field(default=None, description="bounds of every single model request")
    strict: bool = Field(default=False, description="reserve a token for each byte of a prompt, which none exceeds")
    asks: int | None = Field(
        default=None, ge=0, le=10**9, description="asks inside, also those of nested teams and of agents among tools"
    )
    depth: int | None = Field(
        default=None, ge=0, le=1000, description="how deep asks may nest: 1 is those of a team to its own members"
    )

    @property
    def bounds_asks(self) -> bool:
        """Whether asks are counted."""
        return self.asks is not None or self.depth is not None

    @property
    def bounds_spend(self) -> bool:
        """Whether an account is needed: any bound besides time is set, or how calls inside are reserved."""
        return self.strict or any(bound is not None for bound in (self.tokens, self.usd, self.calls, self.message))

    @property
    def bounds(self) -> Bounds:
        """The limits in their recorded form."""
        one = self.message
        message = Amounts(tokens=one.tokens, usd=one.usd, seconds=one.seconds) if one else None
        return Bounds(
            tokens=self.tokens,
            usd=self.usd,
            calls=self.calls,
            seconds=self.seconds,
            message=message,
            strict=self.strict or None,
            asks=self.asks,
            depth=self.depth,
        )

    @classmethod
    def from_bounds(cls, bounds: Bounds) -> Limits:
        """Return the limits from their recorded form."""
        one = bounds.message
        message = {"tokens": one.tokens, "usd": one.usd, "seconds": one.seconds} if one else None
        return cls.model_validate({**bounds.given, "message": message})


class PerMinute(Value):
    """What a model may be asked in any sixty seconds."""

    calls: int | None = Field(default=None, ge=1, description="requests that start in any sixty seconds")
    tokens: int | None = Field(default=None, ge=1, description="input and output tokens of these requests")


def _without_default(schema: dict[str, JsonValue]) -> None:
    """Leave the default out of the schema, where it says nothing: no bound."""
    del schema["default"]


class Pace(Value):
    """The rate limits of one model, for all runs of an engine together."""

    per_minute: PerMinute = Field(
        default=PerMinute.model_construct(),
        description="what may be asked of it in any sixty seconds",
        json_schema_extra=_without_default,
    )
    max_parallel: int | None = Field(default=None, ge=1, description="requests in flight at once; 32 by default")

    def tightened(self, other: Pace) -> Pace:
        """Return the tighter of each pair of limits."""
        return Pace(
            per_minute=PerMinute(
                calls=tighter(self.per_minute.calls, other.per_minute.calls),
                tokens=tighter(self.per_minute.tokens, other.per_minute.tokens),
            ),
            max_parallel=tighter(self.max_parallel, other.max_parallel),
        )


def tighter(one: N | None, other: N | None) -> N | None:
    """Return the smaller of two bounds; `None` is no bound."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


ForecastBasis = Literal["runs", "simulation", "unknown"]
"""What a forecast rests on: past runs of the same team, simulated runs, or nothing."""


class Quantiles(Record, frozen=True):
    """The median and the 90th percentile of an amount."""

    p50: float
    p90: float


class SpendForecast(Record, frozen=True):
    """What a run is expected to spend, over `runs` past or simulated runs, and the limits that it can't exceed.

    `usd` is `None` if the price of a model is not known, and each amount is if nothing is known.
    """

    basis: ForecastBasis
    runs: int = 0
    tokens: Quantiles | None = None
    usd: Quantiles | None = None
    asks: Quantiles | None = None
    ceiling: Bounds = Bounds()


def ceiling_of(*limits: Limits | None) -> Bounds:
    """Return the tightest of several limits that apply to the same work."""
    ceiling = Bounds()
    for one in limits:
        if one is not None:
            ceiling = Bounds(
                tokens=tighter(ceiling.tokens, one.tokens),
                usd=tighter(ceiling.usd, one.usd),
                calls=tighter(ceiling.calls, one.calls),
                seconds=tighter(ceiling.seconds, one.seconds),
            )
    return ceiling


def lowered(limits: Limits | None, ceiling: Mapping[str, float]) -> Limits:
    """Return limits with a lower ceiling by unit; a ceiling above a limit changes nothing."""
    known = {} if limits is None else limits.model_dump(exclude_none=True)
    lower = {unit: min(amount, known.get(unit, amount)) for unit, amount in ceiling.items()}
    return Limits.model_validate({**known, **lower})


Degradation = Literal["none", "auto", "aggressive", "ask"]
"""What a team does when its budget will not last: nothing, cut back, cut back early and hard, or ask a person first."""


class Cutback(Record, frozen=True):
    """What a team cuts back: peer talk, the share of a summary's usual length, how many members work at once, whether
    members with a cheaper model use it, how many of the latest messages reach a member in full, and whether the closing
    ask gets by with the least.
    """

    peers: bool = True
    summary: float = 1.0
    workers: int | None = None
    economy: bool = False
    recent: int | None = None
    answer: bool = False

    def width(self, most: int) -> int:
        """How many members of at most `most` may work at once now; always at least one."""
        return most if self.workers is None else max(1, min(most, self.workers))


NO_CUTBACK = Cutback()
"""Nothing is cut back."""


class ClosingAsk(NamedTuple):
    """An ask that ends the work of a team, such as the answer of its lead. A part of the budget is kept back for it.

    `reads` is the number of replies in its prompt; `None` for all of them. `characters` is the length of other texts in
    it that no earlier prompt had, such as the chunks of a fan-out.
    """

    member: str
    reads: int | None = None
    characters: int = 0


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
