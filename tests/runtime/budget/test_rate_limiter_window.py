"""No minute holds more than is declared, and the limit of a model follows what its provider says."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.runtime.budget.rate_limiter import (
    CONCURRENCY,
    FIRST_OUTPUT,
    MINUTE,
    ConcurrencyLimit,
    Departure,
    RateWindow,
)
from teamwright.values.limits import Pace, PerMinute
from tests.runtime.virtual_time import most_in_a_minute


def window(requests: int | None = None, tokens: int | None = None) -> RateWindow:
    made = RateWindow()
    made.set_limits(Pace(per_minute=PerMinute(calls=requests, tokens=tokens)))
    return made


def test_a_minute_holds_so_many_requests() -> None:
    made = window(requests=2)
    for time in (0.0, 10.0):
        assert made.opens_at(time, 0) == time
        made.record_departure(time, 0)
    assert made.opens_at(20.0, 0) == made.opens_at(59.9, 0) == 60.0
    assert made.opens_at(60.0, 0) == 60.0
    made.record_departure(60.0, 0)
    assert made.opens_at(61.0, 0) == 70.0


def test_tokens_are_counted_as_estimated_until_the_provider_says_what_it_was() -> None:
    made = window(tokens=1000)
    first = made.record_departure(0.0, 900)
    assert made.opens_at(1.0, 200) == MINUTE
    made.settle(first, 300)
    assert made.opens_at(1.0, 200) == 1.0
    made.settle(first, 5000)
    assert made.opens_at(1.0, 1) == MINUTE
    assert made.opens_at(60.0, 1) == 60.0


def test_what_becomes_known_after_its_minute_changes_nothing() -> None:
    made = window(tokens=1000)
    first = made.record_departure(0.0, 900)
    assert made.opens_at(MINUTE, 1000) == MINUTE
    made.settle(first, 100_000)
    assert made.opens_at(MINUTE, 1000) == MINUTE


def test_a_call_that_never_left_counts_for_nothing() -> None:
    made = window(requests=1, tokens=10)
    made.remove(made.record_departure(0.0, 10))
    assert made.opens_at(0.0, 10) == 0.0


def test_an_estimate_is_a_quarter_of_the_bytes_and_the_usual_output_up_to_the_cap() -> None:
    made = window(tokens=10_000)
    assert made.estimate(401, None) == 101 + FIRST_OUTPUT
    assert made.estimate(400, 50) == 150
    for _ in range(100):
        made.learn_output(20)
    assert made.estimate(400, 50) == pytest.approx(120, abs=1)


def test_a_call_larger_than_the_minute_leaves_alone() -> None:
    made = window(tokens=100)
    assert made.estimate(4000, 4096) == 100
    made.record_departure(0.0, 1)
    assert made.opens_at(0.0, 100) == MINUTE
    assert made.opens_at(MINUTE, 100) == MINUTE
    made.set_limits(Pace(per_minute=PerMinute(tokens=50)))
    assert made.opens_at(2 * MINUTE, 100) == 2 * MINUTE


gaps = st.one_of(st.sampled_from([0.0, 1.0, 57.0, 59.0, 60.0]), st.floats(0, 30, width=16))
calls = st.tuples(gaps, st.integers(1, 400), st.floats(0, 1, width=16))


@given(
    st.lists(calls, max_size=60),
    st.one_of(st.none(), st.integers(1, 8)),
    st.one_of(st.none(), st.integers(1, 600)),
)
def test_no_sixty_seconds_hold_more_than_the_bounds(
    load: list[tuple[float, int, float]], requests: int | None, tokens: int | None
) -> None:
    """Calls in sequence that wait as they must, and cost a part of their estimate."""
    made, now = window(requests, tokens), 0.0
    times: list[float] = []
    estimates: list[int] = []
    open_: list[tuple[Departure, int]] = []
    for gap, size, share in load:
        now += gap
        estimate = made.estimate(4 * size, 0)
        while (when := made.opens_at(now, estimate)) > now:
            now = when
        open_.append((made.record_departure(now, estimate), int(share * estimate)))
        times.append(now)
        estimates.append(estimate)
        if len(open_) > 2:
            departure, cost = open_.pop(0)
            made.settle(departure, cost)
            estimates[len(times) - 3] = cost
    if requests is not None:
        assert most_in_a_minute(times) <= requests
    if tokens is not None:
        assert most_in_a_minute(times, estimates) <= tokens


def test_the_width_is_half_of_those_that_were_out_once_for_all_of_them() -> None:
    limit = ConcurrencyLimit(32)
    assert [limit.decrease(out, 0) for out in (8, 7, 6)] == [True, False, False]
    assert limit.current == 4
    assert limit.decrease(4, 1)
    assert limit.current == 2


def test_a_call_that_was_out_alone_says_nothing_about_the_width() -> None:
    limit = ConcurrencyLimit(32)
    assert limit.decrease(1, 0)
    assert limit.current == 32


def test_the_width_grows_by_one_with_every_fourth_good_answer() -> None:
    limit = ConcurrencyLimit(8)
    limit.decrease(8, 0)
    seen: list[int] = []
    while not limit.increase(1):
        seen.append(limit.current)
    assert seen == [4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7]
    assert limit.current == 8
    assert not limit.increase(1), "it is told once that it is as wide as before"


def test_what_left_before_it_was_narrowed_does_not_widen_it() -> None:
    limit = ConcurrencyLimit(8)
    limit.decrease(8, 0)
    for _ in range(100):
        limit.increase(0)
    assert limit.current == 4


def test_another_bound_lifts_only_what_was_not_narrowed() -> None:
    free, slowed = ConcurrencyLimit(), ConcurrencyLimit()
    slowed.decrease(8, 0)
    for limit in (free, slowed):
        limit.set_maximum(100)
    assert (CONCURRENCY, free.current, slowed.current) == (32, 100, 4)
    for limit in (free, slowed):
        limit.set_maximum(2)
    assert (free.current, slowed.current) == (2, 2)


@given(st.integers(1, 40), st.lists(st.one_of(st.none(), st.integers(1, 40)), max_size=80))
def test_the_width_stays_between_one_and_the_most(most: int, answers: list[int | None]) -> None:
    limit = ConcurrencyLimit(most)
    for out in answers:
        if out is None:
            limit.increase(limit.epoch)
        else:
            limit.decrease(min(out, limit.current), limit.epoch)
        assert 1 <= limit.current <= most
