"""Amounts of money as whole numbers."""

from __future__ import annotations

import pytest

from teamwright.values.limits import LARGEST, PICODOLLARS, picodollars


@pytest.mark.parametrize(("usd", "amount"), [(None, 0), (0.0, 0), (0.25, PICODOLLARS // 4), (-1.0, -PICODOLLARS)])
def test_dollars_are_whole_picodollars(usd: float | None, amount: int) -> None:
    assert picodollars(usd) == amount


@pytest.mark.parametrize("usd", [1e308, float("inf"), -1e308, float("-inf")])
def test_no_amount_overflows_whatever_a_record_says(usd: float) -> None:  # S-08
    assert abs(picodollars(usd)) == round(LARGEST * PICODOLLARS)
