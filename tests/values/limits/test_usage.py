"""Usage adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from teamwright.values.limits.usage import NOTHING, Usage

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
