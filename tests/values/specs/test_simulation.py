"""Distributions: what the same chance gives, in order, within bounds, and read as people write them."""

from __future__ import annotations

from math import exp, log
from statistics import NormalDist, mean

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter, ValidationError

from teamwright.values.specs.simulation import (
    Behaviour,
    Distribution,
    Percentiles,
    Simulation,
    quantile,
    with_defaults,
)

READ: TypeAdapter[Distribution] = TypeAdapter(Distribution)
CHANCES = st.floats(min_value=0, max_value=1, exclude_max=True)
amounts = st.floats(min_value=0, max_value=1e6)
positive = st.floats(min_value=1e-3, max_value=1e6)
distributions = st.one_of(
    amounts,
    st.builds(lambda a, b: Percentiles(p50=min(a, b), p90=max(a, b)), positive, positive),
    st.lists(amounts, min_size=1, max_size=30).map(lambda values: tuple(sorted(values))),
)


@given(distributions, CHANCES, CHANCES)
def test_more_chance_never_gives_less_and_nothing_is_negative(one: Distribution, low: float, high: float) -> None:
    low, high = sorted((low, high))
    assert 0 <= quantile(one, low) <= quantile(one, high)


@pytest.mark.parametrize(
    ("written", "median", "ninth"),
    [
        (4, 4.0, 4.0),
        ({"p50": 4, "p90": 11}, 4.0, 11.0),
        ([9, 1, 4], 4.0, 9.0),
    ],
)
def test_a_distribution_is_read_as_it_is_written(written: object, median: float, ninth: float) -> None:
    found = READ.validate_python(written)
    assert quantile(found, 0.5) == pytest.approx(median)
    assert quantile(found, 0.9) == pytest.approx(ninth)


@pytest.mark.parametrize(
    "written",
    [-1, {"uniform": [2, 6]}, {"p50": 0, "p90": 3}, {"p50": 9, "p90": 3}, [], [-1], {"gamma": [1, 2]}, "fast"],
)
def test_a_value_that_is_no_distribution_is_refused(written: object) -> None:
    with pytest.raises(ValidationError):
        READ.validate_python(written)


def test_values_over_even_chances_have_the_mean_that_was_asked_for() -> None:
    chances = [(place + 0.5) / 10_000 for place in range(10_000)]
    sigma = log(12 / 10) / NormalDist().inv_cdf(0.9)
    wanted = 10 * exp(sigma**2 / 2)  # the mean of a lognormal distribution
    assert mean(quantile(Percentiles(p50=10, p90=12), one) for one in chances) == pytest.approx(wanted, rel=1e-3)
    assert mean(quantile((0.0, 5.0, 10.0), one) for one in chances) == pytest.approx(5, rel=1e-3)


def test_what_is_said_stands_over_what_is_usual() -> None:
    usual = Simulation(skill=0.5, latency=3.0, coordinate=Behaviour(latency=1.0))
    assert with_defaults(None, usual) == usual
    assert with_defaults(Simulation(skill=0.9), usual) == usual.model_copy(update={"skill": 0.9})
    assert with_defaults(Simulation(skill=0.0), usual).skill == 0.0
