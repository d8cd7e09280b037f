"""Limits and retry policies refuse what makes no sense."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from teamwright.values.limits import Limits, Pace, RetryPolicy


@pytest.mark.parametrize("bad", [{"tokens": -1}, {"calls": -1}, {"seconds": 0}, {"seconds": -1}, {"tokns": 1}])
def test_limits_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate(bad)


@pytest.mark.parametrize("bad", [{"attempts": -1}, {"attempts": 21}, {"backoff": -1}, {"jitter": 2}, {"longest": -1}])
def test_policies_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        RetryPolicy.model_validate(bad)


@pytest.mark.parametrize("bad", [{"concurrency": 0}, {"requests_per_minute": 0}, {"tokens_per_minute": -5}])
def test_a_pace_at_which_nothing_would_ever_leave_is_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Pace.model_validate(bad)


def test_the_tighter_of_two_paces_is_that_of_each_bound() -> None:
    one, other = Pace(concurrency=3, requests_per_minute=9), Pace(concurrency=5, tokens_per_minute=7)
    assert one.tightened(other) == other.tightened(one)
    assert one.tightened(other) == Pace(concurrency=3, requests_per_minute=9, tokens_per_minute=7)
