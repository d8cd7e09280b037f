from __future__ import annotations

import pytest
from pydantic import ValidationError

from teamwright.values.limits.limits import Limits
from teamwright.values.limits.spend_forecast import ConfirmAbove, Quantiles, SpendForecast, ceiling_of, lowered
from teamwright.values.limits.usage import Bounds

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
    assert ConfirmAbove.model_validate(above).is_exceeded_by(FORECAST) is exceeded


def test_an_unknown_amount_is_never_taken_for_a_small_one() -> None:
    unknown = FORECAST.changed(usd=None)
    assert ConfirmAbove(usd=100).is_exceeded_by(unknown)
    assert not ConfirmAbove(tokens=5000).is_exceeded_by(unknown)


@pytest.mark.parametrize("wrong", [{}, {"usd": -1}, {"tokens": 1.5}, {"euro": 1}])
def test_amounts_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        ConfirmAbove.model_validate(wrong)


def test_the_ceiling_is_the_tightest_of_all_limits() -> None:
    assert ceiling_of(None, None) == Bounds()
    assert ceiling_of(Limits(tokens=10, usd=2), Limits(tokens=20, usd=1, calls=3)) == Bounds(tokens=10, usd=1, calls=3)


def test_a_lower_ceiling_tightens_limits_and_never_widens_them() -> None:
    assert lowered(None, {"usd": 0.5}) == Limits(usd=0.5)
    assert lowered(Limits(tokens=100, calls=3), {"tokens": 50, "usd": 1.0}) == Limits(tokens=50, usd=1.0, calls=3)
    assert lowered(Limits(tokens=100), {"tokens": 500}) == Limits(tokens=100)
