"""Limits refuse what makes no sense; of two, the tighter holds."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from teamwright.values.limits.limits import Limits, MessageLimits, Pace


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
        {"message": {"tokens": 0}},
        {"message": {"calls": 1}},
    ],
)
def test_limits_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate(bad)


@pytest.mark.parametrize("bad", [{"concurrency": 0}, {"requests_per_minute": 0}, {"tokens_per_minute": -5}])
def test_a_pace_at_which_nothing_would_ever_leave_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Pace.model_validate(bad)


def test_the_tighter_of_two_paces_is_that_of_each_bound() -> None:
    one, other = Pace(concurrency=3, requests_per_minute=9), Pace(concurrency=5, tokens_per_minute=7)
    assert one.tightened(other) == other.tightened(one)
    assert one.tightened(other) == Pace(concurrency=3, requests_per_minute=9, tokens_per_minute=7)


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
