"""Strategies are found by name, ours and those of other packages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import UnknownName, UsageError
from teamwright.runtime.engine import Engine
from teamwright.strategies.registry import find_strategy, strategy_names
from teamwright.teams.team import Team
from tests.kit.entry_points import registered_strategies
from tests.strategies.example.debate import Debate


@pytest.fixture
def third_party_strategies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another package registers a strategy, a broken one, and one under a built-in name."""
    debate = "tests.strategies.example.debate:Debate"
    with registered_strategies(monkeypatch, debate_club=debate, broken="tests.nowhere:Gone", sequential=debate):
        yield


@pytest.mark.parametrize("name", ["round-robin", "round_robin", " round-robin "])
def test_a_name_may_be_spelt_with_either_dash(name: str) -> None:
    assert find_strategy(name).name == "round_robin"


def test_an_unknown_name_is_reported_with_the_nearest_ones() -> None:
    with pytest.raises(UnknownName, match=r"no strategy 'sequental'.*did you mean 'sequential'"):
        find_strategy("sequental")


def test_built_in_strategies_are_listed() -> None:
    assert {"round_robin", "sequential"} <= set(strategy_names())


@pytest.mark.usefixtures("third_party_strategies")
def test_a_third_party_registers_by_entry_point() -> None:
    assert isinstance(find_strategy("debate-club"), Debate)
    assert isinstance(find_strategy("debate_club"), Debate)
    assert "debate_club" in strategy_names()


@pytest.mark.usefixtures("third_party_strategies")
async def test_a_team_names_a_third_party_strategy_like_any_other() -> None:
    async def speak(turn: object) -> str:
        return "hm"

    members = [FunctionAgent(name, speak) for name in ("for", "against", "judge")]
    async with Engine("memory") as engine:
        result = await engine.run(Team("t", members=members, strategy="debate-club"), "Is it so?")
    assert [message.name for message in result.messages] == ["for", "against", "judge"]


@pytest.mark.usefixtures("third_party_strategies")
def test_one_that_cannot_be_loaded_is_reported_with_its_place() -> None:
    with pytest.raises(UsageError, match=r"'broken' \(tests\.nowhere:Gone\) can't be loaded"):
        find_strategy("broken")


@pytest.mark.usefixtures("third_party_strategies")
def test_a_third_party_cannot_take_a_built_in_name() -> None:
    assert not isinstance(find_strategy("sequential"), Debate)


def test_each_call_makes_its_own_strategy() -> None:
    assert find_strategy("sequential") is not find_strategy("sequential")
