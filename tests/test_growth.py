"""The growth assertions themselves: linear work passes, other work fails soon, whatever it does."""

from __future__ import annotations

import re
import time

import pytest

from tests.growth import assert_linear, assert_linear_calls, assert_linear_count, count_calls

# S-01


def linear(size: int) -> int:
    return sum(number % 7 for number in range(size))


def quadratic(size: int) -> int:
    return sum(number % 7 for _ in range(size) for number in range(size))


def test_linear_work_passes() -> None:
    assert_linear(linear)


def test_linear_work_that_is_quick_at_any_size_passes() -> None:
    assert_linear(len, prepare=lambda size: [0] * min(size, 100))


def test_quadratic_work_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="times the work"):
        assert_linear(quadratic, size=16)


def test_quadratic_work_at_a_large_size_is_cut_off() -> None:
    begun = time.process_time()
    with pytest.raises(pytest.fail.Exception, match="cut off"):
        assert_linear(quadratic, size=1_000_000, limit=0.2)
    assert time.process_time() - begun < 5


def test_a_pattern_that_backtracks_is_cut_off() -> None:
    pattern = re.compile(r"(a+)+$")
    with pytest.raises(pytest.fail.Exception, match="cut off"):
        assert_linear(pattern.match, prepare=lambda size: "a" * (18 if size == 16 else size) + "b", limit=0.2)


def test_work_that_swallows_every_exception_is_cut_off() -> None:
    def stubborn(size: int) -> None:
        try:
            quadratic(size)
        except BaseException:  # noqa: BLE001 - what the code under test may do
            quadratic(size)

    with pytest.raises(pytest.fail.Exception, match="cut off"):
        assert_linear(stubborn, size=1_000_000, limit=0.2)


def test_the_preparation_of_an_input_is_not_measured() -> None:
    def prepare(size: int) -> int:
        quadratic(min(size, 1_000))
        return size

    assert_linear(linear, prepare=prepare)


def test_calls_are_counted() -> None:
    def call(times: int) -> None:
        for _ in range(times):
            linear(0)

    assert count_calls(call, 100) - count_calls(call, 50) == count_calls(call, 50) - count_calls(call, 0)
    assert_linear_calls(call)


def test_quadratic_calls_fail() -> None:
    with pytest.raises(pytest.fail.Exception, match="calls at size 200, and more than"):
        assert_linear_calls(quadratic)


def test_calls_that_would_never_end_are_cut_off() -> None:
    begun = time.process_time()
    with pytest.raises(pytest.fail.Exception, match="calls at size 200, and more than"):
        assert_linear_calls(lambda size: quadratic(1_000_000 if size > 200 else size))
    assert time.process_time() - begun < 10


def test_numbers_are_compared() -> None:
    assert_linear_count(lambda size: 3 * size)
    with pytest.raises(pytest.fail.Exception, match=r"more than 2\.5 times"):
        assert_linear_count(lambda size: size * size)
