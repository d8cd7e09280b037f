"""Rounding of arrays gives what Python's rounding gives, also where NumPy's own does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from teamwright.lab.parameter_sweep.numpy_rounding import rounded

DIGITS = (0, 2, 4, 5)


def same(values: list[float], digits: int) -> bool:
    """Whether all are rounded alike, signs of nothing and all."""
    return list(map(repr, rounded(np.array(values), digits).tolist())) == [repr(round(one, digits)) for one in values]


@pytest.mark.parametrize("digits", DIGITS)
@given(values=st.lists(st.floats(allow_nan=False), min_size=1))
def test_any_float_is_rounded_as_python_does(values: list[float], digits: int) -> None:
    big = [one for one in values if math.isfinite(one)] or [0.0]
    assert same(big, digits)


@pytest.mark.parametrize("digits", DIGITS)
@example(whole=0, steps=-1, sign=-1)
@given(whole=st.integers(0, 10**12), steps=st.integers(-2, 2), sign=st.sampled_from([1, -1]))
def test_the_neighbours_of_a_middle_are_rounded_as_python_does(whole: int, steps: int, sign: int, digits: int) -> None:
    value = (whole + 0.5) / 10**digits
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.inf if steps > 0 else -math.inf)
    assert same([sign * value], digits)


@pytest.mark.parametrize("digits", DIGITS)
def test_a_large_sample_is_rounded_as_python_does(digits: int) -> None:
    random = np.random.default_rng(11)
    middles = (random.integers(0, 10**9, 20_000) + 0.5) / 10**digits
    spread = random.random(20_000) * 10.0 ** random.integers(-6, 12, 20_000)
    binary = random.integers(0, 2**20, 20_000) / 2.0 ** random.integers(1, 20, 20_000)
    values = np.concatenate([middles, spread, binary])
    assert same(values.tolist(), digits)


def test_numpys_own_rounding_would_not_do() -> None:
    assert round(2.675, 2) == 2.67
    assert rounded(np.array([2.675]), 2)[0] == 2.67
    assert np.round(2.675, 2) == 2.68


@pytest.mark.parametrize(("value", "expected"), [(0.125, 0.12), (0.375, 0.38), (-0.125, -0.12), (2.5, 2.5)])
def test_an_exact_middle_goes_to_the_even_digit(value: float, expected: float) -> None:
    assert rounded(np.array([value]), 2).tolist() == [expected]


def test_what_is_not_finite_stays_as_it_is() -> None:
    assert rounded(np.array([math.inf, -math.inf]), 2).tolist() == [math.inf, -math.inf]
