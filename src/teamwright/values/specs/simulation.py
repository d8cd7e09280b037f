"""How a member behaves in a simulation: how often it is right, how long it takes, what it uses and how it fails.

Amounts are distributions: each makes a value out of a number between 0 and 1, so the same number gives the same value.
"""

from __future__ import annotations

from math import exp, log
from typing import Annotated, Self

from pydantic import AfterValidator, Field, FiniteFloat, JsonValue, model_validator

from teamwright.values.models import Value

SMALLEST_CHANCE = 1e-12
P90 = 1.2815515655446004
"""How many standard deviations above the mean nine of ten stay below."""

LARGEST_EXPONENT = 60.0
"""Beyond it an amount means nothing, and the exponential of a large one is no number at all."""

Amount = Annotated[FiniteFloat, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]


class Uniform(Value):
    """Anything between two bounds, each as likely."""

    uniform: tuple[Amount, Amount] = Field(description="the lowest and the highest value")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.uniform[0] > self.uniform[1]:
            raise ValueError("the lowest value of uniform comes first")
        return self

    def at(self, chance: float) -> float:
        """The value below which this share of all lies."""
        low, high = self.uniform
        return low + (high - low) * chance


class Normal(Value):
    """Around a mean; never below nothing."""

    normal: tuple[Amount, Amount] = Field(description="the mean and the standard deviation")

    def at(self, chance: float) -> float:
        """The value below which this share of all lies."""
        mean, deviation = self.normal
        return max(0.0, mean + deviation * _z(chance))


class Lognormal(Value):
    """Around a median, with a long tail upwards, as times and lengths of answers mostly are."""

    lognormal: tuple[Amount, Amount] = Field(description="the median, and the standard deviation of the logarithm")

    def at(self, chance: float) -> float:
        """The value below which this share of all lies."""
        median, sigma = self.lognormal
        return median * exp(min(LARGEST_EXPONENT, sigma * _z(chance)))


class Percentiles(Value):
    """A lognormal distribution by two values that half and nine of ten stay below."""

    p50: Annotated[FiniteFloat, Field(gt=0)]
    p90: Annotated[FiniteFloat, Field(gt=0)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.p50 > self.p90:
            raise ValueError("p90 is at least p50")
        return self

    def at(self, chance: float) -> float:
        """The value below which this share of all lies."""
        return self.p50 * exp(log(self.p90 / self.p50) / P90 * _z(chance))


class Data(Value):
    """One of these values, each as likely: what was measured."""

    data: Annotated[tuple[Amount, ...], AfterValidator(lambda values: tuple(sorted(values)))] = Field(min_length=1)

    def at(self, chance: float) -> float:
        """The value below which this share of all lies."""
        return self.data[min(len(self.data) - 1, int(chance * len(self.data)))]


Distribution = Amount | Uniform | Normal | Lognormal | Percentiles | Data
"""A number is the same every time."""


def value_at(distribution: Distribution, chance: float) -> float:
    """The value of a distribution below which this share of all lies."""
    return distribution if isinstance(distribution, float | int) else distribution.at(chance)


class Behaviour(Value):
    """What a turn takes; what is left out is told elsewhere or usual."""

    latency: Distribution | None = Field(default=None, description="seconds of a call")
    input: Distribution | None = Field(
        default=None, description="input tokens; else counted from what the member is really told"
    )
    output: Distribution | None = Field(default=None, description="output tokens")


class Simulation(Behaviour):
    """How a member behaves in a simulation."""

    skill: Share | None = Field(default=None, description="how often what it does is right")
    rate_limit: Share | None = Field(default=None, description="how often a call is turned away for the moment")
    timeout: Share | None = Field(default=None, description="how often a call does not come back in time")
    error: Share | None = Field(default=None, description="how often a call fails in another way that may pass")
    terminate: Share | None = Field(default=None, description="how often it ends the team, where it may")
    items: Distribution | None = Field(default=None, description="how many parts it makes of something")
    right: JsonValue = Field(default=None, description="what it says when it is right: a text, or data")
    wrong: JsonValue = Field(default=None, description="what it says when it is wrong")
    coordinate: Behaviour | None = Field(default=None, description="what a turn takes in which it coordinates others")
    judge: Behaviour | None = Field(default=None, description="what a turn takes in which it judges others")


def over(first: Simulation | None, other: Simulation) -> Simulation:
    """The first, and where it says nothing the other."""
    if first is None:
        return other
    given = {name: getattr(first, name) for name in first.model_fields_set if getattr(first, name) is not None}
    return other.model_copy(update=given)


def _z(chance: float) -> float:
    """How many standard deviations from the mean this share of all lies below."""
    from statistics import NormalDist  # brings half the numeric tower, which only simulations need

    return NormalDist().inv_cdf(min(1 - SMALLEST_CHANCE, max(SMALLEST_CHANCE, chance)))
