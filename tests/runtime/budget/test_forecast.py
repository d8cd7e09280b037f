"""Forecasts: estimates corrected by the actual cost, or else the trend of costs, against the tightest limit."""

from __future__ import annotations

import sys

import pytest

from teamwright.runtime.budget.forecast import Forecast, Trend
from teamwright.runtime.budget.ledger import Account
from teamwright.values.limits import Limits
from teamwright.values.usage_and_prices import Cost


def account(tokens: int, spent: int = 0) -> Account:
    return Account("team", Limits(tokens=tokens), None, Cost(spent, 0, 1))


def forecast_after(costs: list[int], expected: int) -> Forecast:
    """A team of asks without estimates, some of which have ended at these costs."""
    forecast = Forecast({f"step-{number}": 0 for number in range(1, expected + 1)})
    for number, cost in enumerate(costs, start=1):
        forecast.ask_ended(f"step-{number}", (cost, 0))
    return forecast


def test_before_anything_has_ended_only_estimates_say_anything() -> None:  # Z-11
    limits = Account("team", Limits(tokens=1000, usd=1), None)
    assert Forecast({"a": 0, "b": 0}).pressure(limits) is None
    assert Forecast({"a": 300, "b": 300}).pressure(limits) == (0.6, "tokens", 600, 1000)


def test_without_a_limit_on_tokens_or_money_there_is_no_pressure() -> None:
    assert Forecast({"a": 300}).pressure(Account("team", Limits(calls=1), None)) is None


def test_estimates_are_corrected_by_what_the_estimated_has_cost() -> None:  # Z-11
    forecast = Forecast({"a": 100, "b": 100, "c": 200})
    forecast.ask_ended("a/work", (150, 0))
    pressure = forecast.pressure(account(1000, 150))
    assert pressure is not None
    assert (pressure.forecast, pressure.limit, pressure.share) == (600, 1000, 0.6)


def test_an_ask_without_an_estimate_weighs_as_much_as_the_others_on_average() -> None:  # Z-11
    forecast = Forecast({"a": 100, "b": 300, "lead/answer": 0})
    forecast.ask_ended("a", (100, 0))
    pressure = forecast.pressure(account(1000, 100))
    assert pressure is not None
    assert pressure.forecast == 100 + 300 + 200


def test_talk_between_expected_asks_counts_towards_the_next_of_them() -> None:  # Z-11
    forecast = Forecast({f"step-{number}": 0 for number in range(1, 5)})
    forecast.ask_ended("step-1", (40, 0))
    forecast.ask_ended("select-2", (20, 0))
    forecast.ask_ended("step-2", (40, 0))
    pressure = forecast.pressure(account(100, 100))
    assert pressure is not None
    assert pressure.share == 2.0
    assert forecast.asks_ended == 3


def test_prompts_that_grow_are_expected_to_grow_on() -> None:  # Z-11
    pressure = forecast_after([100, 200, 300], 5).pressure(account(2000, 600))
    assert pressure is not None
    assert pressure.forecast == pytest.approx(600 + 400 + 500)


def test_two_asks_show_no_trend_and_falling_costs_are_none() -> None:
    assert forecast_after([100, 300], 5).trends == (Trend(200), Trend(0))
    assert forecast_after([300, 200, 100], 5).trends == (Trend(200), Trend(0))


def test_after_a_change_only_the_asks_since_say_what_is_usual() -> None:  # Z-11
    forecast = forecast_after([100, 100], 4)
    forecast.restart_trends()
    assert forecast.trends == (Trend(100), Trend(0))
    assert forecast.first_costs is None
    forecast.ask_ended("step-3", (20, 0))
    assert (forecast.trends, forecast.first_costs) == ((Trend(20), Trend(0)), (20, 0))


def test_the_level_that_is_closest_to_its_limit_counts_in_tokens_or_money() -> None:  # Z-11
    outer = Account("", Limits(usd=0.01), None, Cost(100, 8_000_000_000, 1))
    inner = Account("team", Limits(tokens=1000), outer, Cost(100, 2_000_000_000, 1))
    forecast = Forecast({"a": 0, "b": 0, "c": 0})
    forecast.ask_ended("a", (100, 2_000_000_000))
    pressure = forecast.pressure(inner)
    assert pressure is not None
    assert pressure.what == "usd"
    assert pressure.share == pytest.approx(1.2)


def test_where_the_asks_are_unknown_one_more_is_expected_besides_what_is_kept_back() -> None:  # Z-11
    limits, forecast = account(1000, 100), Forecast({})
    forecast.ask_ended("decision-1", (100, 0))
    limits.keep_back(Cost(0, 0, 0), Cost(300, 0, 1))
    pressure = forecast.pressure(limits)
    assert pressure is not None
    assert pressure.forecast == 100 + 300 + 100


def test_an_ask_counts_once_and_one_that_was_not_predicted_never() -> None:
    forecast = Forecast({"a": 10, "b": 10})
    for key in ("a/work", "a/work", "z"):
        forecast.ask_ended(key, (10, 0))
    assert forecast.trends == (Trend(1), Trend(0))
    forecast.ask_ended("b", (10, 0))
    assert forecast.trends == (Trend(2), Trend(0)), "what other asks cost belongs to the next expected one"


def test_a_forecast_takes_as_long_after_ten_thousand_asks_as_after_a_hundred() -> None:  # Z-11
    """Python's own calls are counted, those of built-in functions and of generators included."""

    def calls_of_one_ask(asks: int) -> int:
        forecast, team = forecast_after([100] * asks, 2 * asks), account(1_000_000)
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            forecast.ask_ended(f"step-{asks + 1}", (100, 0))
            forecast.pressure(team)
        finally:
            sys.setprofile(None)
        return calls

    assert calls_of_one_ask(10_000) == calls_of_one_ask(100)
