"""The forecast of what a run will spend, and the amounts above which a person has to confirm it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from teamwright.values.limits.limits import Limits, tighter
from teamwright.values.limits.usage import Bounds
from teamwright.values.models import Record, Value

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

    @property
    def is_capped(self) -> bool:
        """Whether a limit on tokens or money bounds the run."""
        return self.ceiling.tokens is not None or self.ceiling.usd is not None


class ConfirmAbove(Value):
    """The amounts above which a person has to confirm a run before it spends anything."""

    tokens: int | None = Field(default=None, ge=0, description="input and output tokens")
    usd: float | None = Field(default=None, ge=0, allow_inf_nan=False, description="money, in US dollars")

    @model_validator(mode="after")
    def _some_amount(self) -> Self:
        if self.tokens is None and self.usd is None:
            raise ValueError("needs an amount: tokens or usd")
        return self

    def is_exceeded_by(self, forecast: SpendForecast) -> bool:
        """Whether the 90th percentile of a forecast is above one of the amounts; an unknown amount is above."""
        pairs = ((self.tokens, forecast.tokens), (self.usd, forecast.usd))
        return any(amount is not None and (expected is None or expected.p90 > amount) for amount, expected in pairs)


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
