"""Simulated runs that would be endless are ended, and absurd amounts stay numbers."""

from __future__ import annotations

import pytest

import teamwright.lab.simulation.simulated_agents as bounds
from teamwright import ModelAgent, Team
from teamwright.errors import UsageError
from teamwright.lab.simulation.simulate import simulate
from teamwright.lab.simulation.simulated_agents import MOST_FILLED, Simulator, pad_text
from teamwright.strategies.protocol import Members
from teamwright.strategies.team_conversation import MOST_ESTIMATED
from teamwright.values.limits import CHARACTERS_PER_TOKEN, Limits
from teamwright.values.specs.simulation import Percentiles, Simulation
from tests.growth import assert_linear_calls


def member(name: str) -> ModelAgent:
    return ModelAgent(name, model="openai:gpt-5-mini")


@pytest.mark.parametrize("turns", [10**6, 10**9, 10**18])
def test_absurd_turn_counts_are_stopped(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:  # S-01
    monkeypatch.setattr(bounds, "MOST_TURNS", 300)
    team = Team("t", members=[member("a"), member("b")], strategy="round_robin", max_turns=turns)
    with pytest.raises(UsageError, match=r"stopped after 30\d turns.*Lower max_turns"):
        simulate(team, "task", runs=1)


def test_the_prompts_of_members_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:  # S-01
    monkeypatch.setattr(bounds, "MOST_CHARACTERS", 1_000_000)
    team = Team("t", members=[member("a"), member("b")], strategy="round_robin", max_turns=10**6)
    with pytest.raises(UsageError, match="turns and 1000000 characters"):
        simulate(team, "task", runs=1)


def test_many_at_once_are_stopped_as_well(monkeypatch: pytest.MonkeyPatch) -> None:  # S-01
    monkeypatch.setattr(bounds, "MOST_TURNS", 50)
    options = {"chunks": list(range(200)), "max_parallel": 100}
    team = Team("t", members=[member("a"), member("b")], strategy="fan_out", options=options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="was stopped after"):
        simulate(team, "task", runs=1)


def test_a_run_within_its_bound_is_as_ever() -> None:  # S-01
    team = Team("t", members=[member("a"), member("b")], strategy="round_robin", max_turns=5)
    assert simulate(team, "task", runs=2).shape("as declared").asks == 10


def test_a_limit_of_the_user_comes_first() -> None:
    team = Team("t", members=[member("a"), member("b")], strategy="round_robin", max_turns=10**9)
    report = simulate(team, "task", runs=1, limits=Limits(calls=20))
    assert "budget" in next(iter(report.shape("as declared").statuses))


def test_absurd_amounts_stay_numbers() -> None:  # S-01
    assert len(pad_text("x", 10**15)) == MOST_FILLED * CHARACTERS_PER_TOKEN
    assert Percentiles(p50=1.0, p90=1e300).quantile(0.999) > 1e20


def test_forecasts_of_absurd_turn_counts_say_nothing() -> None:  # S-01
    members = [member("a"), member("b")]
    for strategy in ("round_robin", "selector"):
        options = {"agent": "a"} if strategy == "selector" else {}
        team = Team("t", members=members, strategy=strategy, max_turns=10**12, options=options)  # pyright: ignore[reportArgumentType]
        assert team.strategy.expected_asks(team.settings, Members(members)) == {}
    usual = Team("t", members=members, strategy="round_robin", max_turns=MOST_ESTIMATED // 2)
    assert len(usual.strategy.expected_asks(usual.settings, Members(members))) == MOST_ESTIMATED


def layered(depth: int) -> Team:
    """Teams that each hold both teams of the layer below: there are twice as many paths with each layer."""
    below = [Team("t", members=[member("a")]), Team("u", members=[member("b")])]
    for number in range(depth):
        below = [Team(f"t{number}", members=below), Team(f"u{number}", members=below)]
    return Team("top", members=below)


def test_teams_that_share_teams_are_cast_once() -> None:  # S-01
    for behaviour in ({}, {f"t{number}": Simulation(skill=0.5) for number in range(40)}):
        assert_linear_calls(Simulator(behaviour).team, prepare=layered, size=20)
