"""No minute holds more than is declared, and the width of a model follows what its provider says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.budget.rate_window import CONCURRENCY, FIRST_OUTPUT, MINUTE, Departure, Width, Window
from teamwright.values.limits import Pace
from tests.runtime.virtual_time import most_in_a_minute


def window(requests: int | None = None, tokens: int | None = None) -> Window:
    made = Window()
    made.bound(Pace(requests_per_minute=requests, tokens_per_minute=tokens))
    return made


def test_a_minute_holds_so_many_requests() -> None:
    made = window(requests=2)
    for time in (0.0, 10.0):
        assert made.opens(time, 0) == time
        made.leave(time, 0)
    assert made.opens(20.0, 0) == made.opens(59.9, 0) == 60.0
    assert made.opens(60.0, 0) == 60.0
    made.leave(60.0, 0)
    assert made.opens(61.0, 0) == 70.0


def test_tokens_are_counted_as_estimated_until_the_provider_says_what_it_was() -> None:
    made = window(tokens=1000)
    first = made.leave(0.0, 900)
    assert made.opens(1.0, 200) == MINUTE
    made.settle(first, 300)
    assert made.opens(1.0, 200) == 1.0
    made.settle(first, 5000)
    assert made.opens(1.0, 1) == MINUTE
    assert made.opens(60.0, 1) == 60.0


def test_what_becomes_known_after_its_minute_changes_nothing() -> None:
    made = window(tokens=1000)
    first = made.leave(0.0, 900)
    assert made.opens(MINUTE, 1000) == MINUTE
    made.settle(first, 100_000)
    assert made.opens(MINUTE, 1000) == MINUTE


def test_a_call_that_never_left_counts_for_nothing() -> None:
    made = window(requests=1, tokens=10)
    made.withdraw(made.leave(0.0, 10))
    assert made.opens(0.0, 10) == 0.0


def test_an_estimate_is_a_quarter_of_the_bytes_and_the_usual_output_up_to_the_cap() -> None:
    made = window(tokens=10_000)
    assert made.estimate(401, None) == 101 + FIRST_OUTPUT
    assert made.estimate(400, 50) == 150
    for _ in range(100):
        made.learn(20)
    assert made.estimate(400, 50) == pytest.approx(120, abs=1)


def test_a_call_larger_than_the_minute_leaves_alone() -> None:
    made = window(tokens=100)
    assert made.estimate(4000, 4096) == 100
    made.leave(0.0, 1)
    assert made.opens(0.0, 100) == MINUTE
    assert made.opens(MINUTE, 100) == MINUTE
    made.bound(Pace(tokens_per_minute=50))
    assert made.opens(2 * MINUTE, 100) == 2 * MINUTE


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
    """Calls that come one after the other, wait as they must, and turn out to cost a part of their estimate."""
    made, now = window(requests, tokens), 0.0
    times: list[float] = []
    estimates: list[int] = []
    open_: list[tuple[Departure, int]] = []
    for gap, size, share in load:
        now += gap
        estimate = made.estimate(4 * size, 0)
        while (when := made.opens(now, estimate)) > now:
            now = when
        open_.append((made.leave(now, estimate), int(share * estimate)))
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
    width = Width(32)
    assert [width.narrow(out, 0) for out in (8, 7, 6)] == [True, False, False]
    assert width.now == 4
    assert width.narrow(4, 1)
    assert width.now == 2


def test_a_call_that_was_out_alone_says_nothing_about_the_width() -> None:
    width = Width(32)
    assert width.narrow(1, 0)
    assert width.now == 32


def test_the_width_grows_by_one_with_every_fourth_good_answer() -> None:
    width = Width(8)
    width.narrow(8, 0)
    seen: list[int] = []
    while not width.widen(1):
        seen.append(width.now)
    assert seen == [4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7]
    assert width.now == 8
    assert not width.widen(1), "it is told once that it is as wide as before"


def test_what_left_before_it_was_narrowed_does_not_widen_it() -> None:
    width = Width(8)
    width.narrow(8, 0)
    for _ in range(100):
        width.widen(0)
    assert width.now == 4


def test_another_bound_lifts_only_what_was_not_narrowed() -> None:
    free, slowed = Width(), Width()
    slowed.narrow(8, 0)
    for width in (free, slowed):
        width.bound(100)
    assert (CONCURRENCY, free.now, slowed.now) == (32, 100, 4)
    for width in (free, slowed):
        width.bound(2)
    assert (free.now, slowed.now) == (2, 2)


@given(st.integers(1, 40), st.lists(st.one_of(st.none(), st.integers(1, 40)), max_size=80))
def test_the_width_stays_between_one_and_the_most(most: int, answers: list[int | None]) -> None:
    width = Width(most)
    for out in answers:
        if out is None:
            width.widen(width.epoch)
        else:
            width.narrow(min(out, width.now), width.epoch)
        assert 1 <= width.now <= most
