"""Forecasts: estimates corrected by the actual cost, or else the usual cost, against the tightest limit."""

from __future__ import annotations

import pytest

from teamwright.budget.ledger import Account, Cost
from teamwright.runtime.admission.forecast import Forecast
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.usage import Usage


def used(tokens: int, usd: float | None = None) -> Usage:
    return Usage(requests=1, input_tokens=tokens, usd=usd)


def test_before_anything_has_ended_only_estimates_say_anything() -> None:  # Z-11
    account = Account("team", Limits(tokens=1000, usd=1), None)
    assert Forecast({"a": 0, "b": 0}).pressure(used(0), account) is None
    pressure = Forecast({"a": 300, "b": 300}).pressure(used(0), account)
    assert pressure == (0.6, "tokens", 600, 1000)


def test_without_a_limit_on_tokens_or_money_there_is_no_pressure() -> None:
    assert Forecast({"a": 300}).pressure(used(0), Account("team", Limits(calls=1), None)) is None


def test_estimates_are_corrected_by_what_the_estimated_has_cost() -> None:  # Z-11
    forecast = Forecast({"a": 100, "b": 100, "c": 200})
    forecast.ask_ended("a/work")
    pressure = forecast.pressure(used(150), Account("team", Limits(tokens=1000), None, Cost(150, 0, 1)))
    assert pressure is not None
    assert (pressure.forecast, pressure.limit, pressure.share) == (600, 1000, 0.6)


def test_without_estimates_the_rest_costs_what_is_usual() -> None:  # Z-11
    forecast = Forecast({f"step-{number}": 0 for number in range(1, 5)})
    forecast.ask_ended("step-1")
    forecast.ask_ended("step-2")
    forecast.ask_ended("select-1")
    pressure = forecast.pressure(used(100), Account("team", Limits(tokens=100), None, Cost(100, 0, 2)))
    assert pressure is not None
    assert pressure.share == 2.0


def test_the_level_that_is_closest_to_its_limit_counts_in_tokens_or_money() -> None:  # Z-11
    outer = Account("", Limits(usd=0.01), None, Cost(100, 8_000_000_000, 1))
    inner = Account("team", Limits(tokens=1000), outer, Cost(100, 2_000_000_000, 1))
    forecast = Forecast({"a": 0, "b": 0, "c": 0})
    forecast.ask_ended("a")
    pressure = forecast.pressure(used(100, 0.002), inner)
    assert pressure is not None
    assert pressure.what == "usd"
    assert pressure.share == pytest.approx(1.2)


def test_an_ask_counts_once_and_one_that_was_not_predicted_never() -> None:
    forecast = Forecast({"a": 10})
    for key in ("a/work", "a/work", "z"):
        forecast.ask_ended(key)
    assert forecast.asks_done == 1
