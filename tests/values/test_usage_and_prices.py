"""Usage, prices, and amounts of money as whole numbers."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from msgspec import json
from pydantic import ValidationError

from teamwright.values.usage_and_prices import LARGEST, NOTHING, PICODOLLARS, Price, Usage, picodollars

counts = st.integers(0, 1000)
usages = st.builds(
    Usage, requests=counts, input_tokens=counts, output_tokens=counts, cached_tokens=counts, reasoning_tokens=counts,
    tool_calls=counts, usd=st.one_of(st.none(), st.integers(0, 100).map(float)),
)  # fmt: skip


@given(usages, usages, usages)
def test_adding_is_associative_and_nothing_is_neutral(one: Usage, two: Usage, three: Usage) -> None:
    assert (one + two) + three == one + (two + three)
    assert one + NOTHING == NOTHING + one == one


@given(usages)
def test_usage_is_the_same_after_a_round_trip(usage: Usage) -> None:
    again = json.decode(json.encode(usage), type=Usage)
    assert again == usage
    assert hash(again) == hash(usage)


def test_the_total_is_input_and_output() -> None:
    usage = Usage(input_tokens=3, output_tokens=4, cached_tokens=2, reasoning_tokens=1)
    assert usage.total_tokens == 7
    assert usage.to_json()["total_tokens"] == 7


def test_unknown_money_does_not_hide_known_money() -> None:
    assert (Usage(requests=1) + Usage(requests=1, usd=0.5)).usd == 0.5
    assert (Usage(requests=1) + Usage(requests=1)).usd is None


def test_nothing_costs_less_than_nothing() -> None:
    with pytest.raises(ValueError, match="can't be negative"):
        Usage(input_tokens=-1)


def test_usage_differs_from_what_is_no_usage() -> None:
    assert Usage() != 0
    assert Usage(usd=0.0) != Usage()


def test_sums_of_money_do_not_drift() -> None:
    total = NOTHING
    for _ in range(30):
        total += Usage(usd=0.1)
    assert total.usd == 3.0
    assert (Usage(usd=0.1) + Usage(requests=1)).usd == 0.1


@pytest.mark.parametrize("bad", [{"input": 1}, {"input": -1, "output": 1}, {"input": 1, "output": 1, "cache": -1}])
def test_prices_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Price.model_validate(bad)


def test_cached_input_is_paid_at_its_own_price_or_as_the_rest() -> None:  # Z-10
    usage = Usage(requests=1, input_tokens=1_000_000, output_tokens=1_000_000, cached_tokens=400_000)
    assert Price(input=1, output=4).cost(usage) == 5.0
    assert Price(input=1, output=4, cache=0.5).cost(usage) == 4.8


@pytest.mark.parametrize(("usd", "amount"), [(None, 0), (0.0, 0), (0.25, PICODOLLARS // 4), (-1.0, -PICODOLLARS)])
def test_dollars_are_whole_picodollars(usd: float | None, amount: int) -> None:
    assert picodollars(usd) == amount


@pytest.mark.parametrize("usd", [1e308, float("inf"), -1e308, float("-inf")])
def test_no_amount_overflows_whatever_a_record_says(usd: float) -> None:  # S-08
    assert abs(picodollars(usd)) == round(LARGEST * PICODOLLARS)
