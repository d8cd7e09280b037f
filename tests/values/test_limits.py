"""Limits, paces and forecasts."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from teamwright.errors import InvalidValue
from teamwright.values.limits import (
    Bounds,
    Limits,
    MessageLimits,
    Pace,
    PerMinute,
    Quantiles,
    Spend,
    SpendForecast,
    ceiling_of,
    lowered,
)
from teamwright.values.people import Confirm, RaiseBudget


@pytest.mark.parametrize(
    "bad",
    [
        {"tokens": -1},
        {"calls": -1},
        {"seconds": 0},
        {"seconds": -1},
        {"tokns": 1},
        {"usd": -0.1},
        {"usd": float("inf")},
        {"seconds": float("inf")},
        {"message": {"seconds": float("inf")}},
        {"message": {"tokens": -1}},
        {"message": {"seconds": 0}},
        {"message": {"calls": 1}},
    ],
)
def test_limits_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate(bad)


@pytest.mark.parametrize("bad", [{"max_parallel": 0}, {"per_minute": {"calls": 0}}, {"per_minute": {"tokens": -5}}])
def test_a_pace_at_which_nothing_would_ever_leave_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Pace.model_validate(bad)


def test_the_tighter_of_two_paces_is_that_of_each_bound() -> None:
    one, other = (
        Pace(max_parallel=3, per_minute=PerMinute(calls=9)),
        Pace(max_parallel=5, per_minute=PerMinute(tokens=7)),
    )
    assert one.tightened(other) == other.tightened(one)
    assert one.tightened(other) == Pace(max_parallel=3, per_minute=PerMinute(calls=9, tokens=7))


def test_limits_come_back_from_a_record_as_they_were() -> None:
    for limits in (
        Limits(tokens=3),
        Limits(usd=0.5, calls=2, seconds=9),
        Limits(message=MessageLimits(usd=1, tokens=8)),
    ):
        assert Limits.from_bounds(limits.bounds) == limits


def test_limits_that_bound_nothing_but_time_are_not_counted() -> None:
    assert not Limits(seconds=1).bounds_spend
    assert Limits(message=MessageLimits(seconds=1)).bounds_spend


def test_the_tighter_bounds_of_a_message_hold() -> None:
    one, other = MessageLimits(tokens=5, seconds=9), MessageLimits(tokens=7, usd=0.1)
    assert one.tightened(other) == other.tightened(one) == MessageLimits(tokens=5, usd=0.1, seconds=9)


FORECAST = SpendForecast(
    basis="runs",
    runs=9,
    tokens=Quantiles(p50=800, p90=1000),
    usd=Quantiles(p50=0.1, p90=1.5),
    asks=Quantiles(p50=2, p90=3),
)


@pytest.mark.parametrize(
    ("above", "exceeded"),
    [
        ({"usd": 1.4}, True),
        ({"usd": 1.5}, False),  # the 90th percentile counts, and the same amount is not above
        ({"tokens": 999}, True),
        ({"tokens": 1000}, False),
        ({"tokens": 5000, "usd": 1}, True),
        ({"tokens": 5000, "usd": 2}, False),
    ],
)
def test_amounts_are_compared_with_the_90th_percentile(above: dict[str, float], exceeded: bool) -> None:
    assert Spend.model_validate(above).is_exceeded_by(FORECAST) is exceeded


def test_an_unknown_amount_is_never_taken_for_a_small_one() -> None:
    unknown = FORECAST.changed(usd=None)
    assert Spend(usd=100).is_exceeded_by(unknown)
    assert not Spend(tokens=5000).is_exceeded_by(unknown)


@pytest.mark.parametrize("wrong", [{}, {"usd": -1}, {"tokens": 1.5}, {"euro": 1}])
def test_amounts_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Confirm.model_validate({"above": wrong})


def test_the_ceiling_is_the_tightest_of_all_limits() -> None:
    assert ceiling_of(None, None) == Bounds()
    assert ceiling_of(Limits(tokens=10, usd=2), Limits(tokens=20, usd=1, calls=3)) == Bounds(tokens=10, usd=1, calls=3)


def test_a_lower_ceiling_tightens_limits_and_never_widens_them() -> None:
    assert lowered(None, {"usd": 0.5}) == Limits(usd=0.5)
    assert lowered(Limits(tokens=100, calls=3), {"tokens": 50, "usd": 1.0}) == Limits(tokens=50, usd=1.0, calls=3)
    assert lowered(Limits(tokens=100), {"tokens": 500}) == Limits(tokens=100)


@pytest.mark.parametrize("limits", [{"tokens": 2**64}, {"usd": 1e12}, {"calls": 2**64}, {"seconds": 1e12}])
def test_a_limit_that_no_record_can_hold_is_refused(limits: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match="at most"):
        Limits(**limits)  # pyright: ignore[reportArgumentType]


def test_amounts_that_are_set_are_known_by_name() -> None:
    assert Limits(tokens=5, usd=0.5, message=MessageLimits(tokens=3)).bounds.by_name == {"tokens": 5, "usd": 0.5}
    assert RaiseBudget(calls=0).by_name == {"calls": 0}
