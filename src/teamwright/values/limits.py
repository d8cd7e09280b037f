"""What work may not exceed, and what follows: limits and paces, forecasts, the sizes of outputs, degradation."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final, Literal, NamedTuple, TypeVar, cast

from pydantic import Field

from teamwright.values.usage_and_prices import BudgetUnit
from teamwright.values.value import JsonValue, Record, Value

CHARACTERS_PER_TOKEN = 4
"""Characters per token in an estimate: about right for English text."""


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


BYTES_PER_MESSAGE: Final = 16
"""The frame of a message in the byte bound."""
MODEST_OUTPUT = 4096
"""An output cap of which a request may take its whole share; of a larger share it takes half."""
USEFUL_OUTPUT = 256
"""The smallest output cap, unless the request sets a smaller one itself, that is worth the cost of a prompt."""
AMPLE_OUTPUT = 1024
"""A request without an output cap learns from its prompt when it gets less than this."""
SMALL_LIMIT = 2048
"""Tokens below which a limit scales a useful output down, so that several fit into it."""


def scaled_output(output: int, limit: float) -> int:
    """Return the size of an output, in proportion to a limit that is smaller than `SMALL_LIMIT` tokens."""
    return max(1, ceil(output * min(1.0, limit / SMALL_LIMIT)))


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
