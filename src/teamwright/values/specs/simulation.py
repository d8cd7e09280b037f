"""The behaviour of a member in a simulation: its skill, latency, usage and failure rates.

Amounts are distributions, sampled by their quantile functions: the same random number gives the same value.
"""

from __future__ import annotations

from math import exp, log
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, FiniteFloat, JsonValue, model_validator

from teamwright.values.value import Value

SMALLEST_CHANCE = 1e-12
P90 = 1.2815515655446004
"""The 90th percentile of the standard normal distribution."""

LARGEST_EXPONENT = 60.0
"""A cap that avoids overflow; amounts beyond it are meaningless."""

Amount = Annotated[FiniteFloat, Field(ge=0)]
Probability = Annotated[float, Field(ge=0, le=1)]


class Percentiles(Value):
    """A lognormal distribution, with a long tail, as latencies and lengths of replies mostly have."""

    p50: Annotated[FiniteFloat, Field(gt=0, description="the median: half are less")]
    p90: Annotated[FiniteFloat, Field(gt=0, description="nine of ten are less")]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.p50 > self.p90:
            raise ValueError("p90 is at least p50")
        return self

    def quantile(self, chance: float) -> float:
        """Return the quantile for a probability."""
        return self.p50 * exp(min(LARGEST_EXPONENT, log(self.p90 / self.p50) / P90 * _z(chance)))


Measured = Annotated[tuple[Amount, ...], Field(min_length=1), AfterValidator(lambda values: tuple(sorted(values)))]
Distribution = Amount | Percentiles | Measured
"""A number is a constant, and a list the empirical distribution of measured values."""
CallError = Literal["rate_limit", "timeout", "server"]
"""The kinds of failures that calls have in a simulation; the team's own retries handle them."""


def quantile(distribution: Distribution, chance: float) -> float:
    """Return the quantile of a distribution."""
    match distribution:
        case float() | int():
            return distribution
        case Percentiles():
            return distribution.quantile(chance)
        case tuple():
            return distribution[min(len(distribution) - 1, int(chance * len(distribution)))]


class Behaviour(Value):
    """The latency and tokens of a turn; a field that is left out has its default."""

    latency: Distribution | None = Field(default=None, description="the duration of a call in seconds")
    input: Distribution | None = Field(default=None, description="input tokens; by default those of the real prompt")
    output: Distribution | None = Field(default=None, description="output tokens")


class Simulation(Behaviour):
    """The behaviour of a member in a simulation."""

    skill: Probability | None = Field(default=None, description="the probability that its work is right")
    error: dict[CallError, Probability] | None = Field(
        default=None, description="the probability that a call fails, by the kind of the failure: {rate_limit: 0.03}"
    )
    terminate: Probability | None = Field(
        default=None, description="the probability that it ends the team, where it can"
    )
    parts: Distribution | None = Field(default=None, description="the number of parts that it splits work into")
    right: JsonValue = Field(default=None, description="its reply when it is right: text or data")
    wrong: JsonValue = Field(default=None, description="its reply when it is wrong")
    coordinate: Behaviour | None = Field(default=None, description="the behaviour of a turn in which it coordinates")
    judge: Behaviour | None = Field(default=None, description="the behaviour of a turn in which it judges")


def with_defaults(first: Simulation | None, other: Simulation) -> Simulation:
    """Return the first, with its unset fields filled from the other."""
    if first is None:
        return other
    given = {name: getattr(first, name) for name in first.model_fields_set if getattr(first, name) is not None}
    return other.model_copy(update=given)


def _z(chance: float) -> float:
    """The quantile of the standard normal distribution."""
    from statistics import NormalDist  # brings half the numeric tower, which only simulations need

    return NormalDist().inv_cdf(min(1 - SMALLEST_CHANCE, max(SMALLEST_CHANCE, chance)))
