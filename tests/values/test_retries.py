"""Whether a failed call is made again, and when."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import AgentError, AgentTimeout, ContextTooLong, RateLimited, Refused, ServiceError
from teamwright.values.retries import ERRORS, RetryPolicy, RetryWaits, recorded_error, wait_before_retry

POLICY = RetryPolicy()


def test_the_wait_doubles_from_two_seconds() -> None:
    assert [wait_before_retry(POLICY, n, ServiceError("x"), 0.0) for n in (1, 2, 3)] == [2.0, 4.0, 8.0]


def test_after_the_last_attempt_it_is_given_up() -> None:
    assert wait_before_retry(POLICY, 4, ServiceError("x"), 0.0) is None
    assert wait_before_retry(RetryPolicy(times=0), 1, ServiceError("x"), 0.0) is None
    assert wait_before_retry(None, 1, ServiceError("x"), 0.0) is None


@given(st.integers(1, 3), st.floats(0, 1, exclude_max=True))
def test_jitter_adds_at_most_its_share(failures: int, chance: float) -> None:
    wait = wait_before_retry(POLICY, failures, RateLimited("x"), chance)
    assert wait is not None
    assert 2.0**failures <= wait <= 2.0**failures * 1.1


@pytest.mark.parametrize(("asked", "wait"), [(0.5, 2.0), (7.0, 7.0), (600.0, 60.0), (None, 2.0)])
def test_a_wait_that_the_provider_asks_for_is_honoured_up_to_the_longest(asked: float | None, wait: float) -> None:
    assert wait_before_retry(POLICY, 1, RateLimited("x", retry_after=asked), 0.0) == wait


def test_no_wait_is_longer_than_the_longest() -> None:
    assert wait_before_retry(RetryPolicy(times=20, backoff=RetryWaits(max=5.0)), 15, ServiceError("x"), 1.0) == 5.0


@pytest.mark.parametrize("error", [AgentError("x"), Refused("x"), ContextTooLong("x")])
def test_permanent_errors_are_not_retried(error: AgentError) -> None:
    assert wait_before_retry(POLICY, 1, error, 0.0) is None


def test_a_timeout_is_tried_again() -> None:
    assert wait_before_retry(POLICY, 1, AgentTimeout("x"), 0.0) == 2.0


def test_an_error_comes_back_from_the_record_as_what_it_was() -> None:
    for kind, error in ERRORS.items():
        again = recorded_error(kind, "why")
        assert type(again) is error
        assert (again.kind, str(again)) == (kind, "why")
    assert type(recorded_error("crash", "why")) is AgentError
