"""Prices refuse what makes no sense, and cached input has its own price."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from teamwright.values.limits.price import Price
from teamwright.values.limits.usage import Usage


@pytest.mark.parametrize("bad", [{"input": 1}, {"input": -1, "output": 1}, {"input": 1, "output": 1, "cached": -1}])
def test_prices_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Price.model_validate(bad)


def test_cached_input_is_paid_at_its_own_price_or_as_the_rest() -> None:  # Z-10
    usage = Usage(requests=1, input_tokens=1_000_000, output_tokens=1_000_000, cached_tokens=400_000)
    assert Price(input=1, output=4).cost(usage) == 5.0
    assert Price(input=1, output=4, cached=0.5).cost(usage) == 4.8
