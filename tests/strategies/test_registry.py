"""Strategies are found by name, ours and those of other packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright import load_team
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.functions.imports import code_not_loaded
from teamwright.errors import ManifestError, UnknownName, UsageError
from teamwright.runtime.engine import Engine
from teamwright.strategies.registry import find_strategy, strategy_names
from teamwright.teams.manifests.code_references import Code, code_in
from teamwright.teams.manifests.manifest_loader import load
from teamwright.teams.manifests.schema import manifest_schema
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


RELAY = """
from teamwright import Strategy
from teamwright.strategies import TeamConversation
from teamwright.values.value import Value

class Options(Value):
    rounds: int = 1

class Relay(Strategy):
    name, version, options = "relay", 1, Options

    async def run(self, task, members, ctx):
        talk = TeamConversation(task)
        for number in range(Options.model_validate(task.settings.options).rounds):
            for member in members:
                talk.receive(await ctx.ask(member, talk.turn(number + 1), key=f"round-{number}/{member.name}"))
        return talk.ended("done")

class Needy(Relay):
    def __init__(self, who): self.who = who

number = 3
def answer(turn): return "ok"
def interrupted(turn): raise RuntimeError("gone")
"""
OWN_TEAM = """
agents: {a: {function: "own_relay:answer"}, b: {function: "own_relay:answer"}}
teams:
  t: {strategy: "own_relay:Relay", members: [a, b], options: {rounds: 2}}
"""


@pytest.fixture
def own_team(tmp_path: Path) -> Iterator[Path]:
    """A manifest whose strategy is a class in a module beside it."""
    (tmp_path / "own_relay.py").write_text(RELAY)
    (tmp_path / "team.yaml").write_text(OWN_TEAM)
    yield tmp_path / "team.yaml"
    sys.modules.pop("own_relay", None)


async def test_a_manifest_names_a_class_beside_it_as_the_strategy(own_team: Path, tmp_path: Path) -> None:
    async with Engine(tmp_path / "j.db") as engine:
        result = await engine.run(load_team(own_team), "go", run_id="r")
        assert [message.name for message in result.messages] == ["a", "b", "a", "b"]
        forked = await engine.fork("r", at=1)
        assert forked.messages == result.messages


async def test_a_team_in_python_records_the_path_of_its_strategy(tmp_path: Path) -> None:
    path = "tests.strategies.example.debate:Debate"
    members = [FunctionAgent(name, spoken) for name in ("for", "against", "judge")]
    team = Team("t", members=members, strategy=path)
    assert team.spec.strategy == path
    async with Engine(tmp_path / "j.db") as engine:
        await engine.run(team, "Is it so?", run_id="r")
        assert (await engine.fork("r", at=1)).status == "completed"


def spoken(turn: object) -> str:
    return "hm"


def test_a_class_beside_the_manifest_is_checked_with_its_options(own_team: Path) -> None:
    own_team.write_text(OWN_TEAM.replace("rounds: 2", "rouns: 2"))
    with pytest.raises(ManifestError, match=r"team\.yaml:4.*'rouns'"):
        load([own_team])


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("own_relay:Relai", "no 'Relai' in 'own_relay:Relai'; did you mean 'Relay'"),
        ("own_rely:Relay", "module of the strategy 'own_rely:Relay' can't be imported"),
        ("own_relay:answer", "is not a class"),
        ("own_relay:Needy", "can't be created without arguments"),
        ("own_relay:Options", "is not a strategy"),
        (":Relay", "write it as module:Class"),
    ],
)
def test_a_path_that_is_no_strategy_is_reported_with_its_place(own_team: Path, path: str, why: str) -> None:
    own_team.write_text(OWN_TEAM.replace("own_relay:Relay", path))
    with pytest.raises(ManifestError, match=rf"team\.yaml:4.*{why}"):
        load([own_team])


def test_commands_that_only_read_do_not_load_the_class(own_team: Path) -> None:
    with code_not_loaded():
        manifest = load([own_team]).manifest
    assert "own_relay" not in sys.modules
    assert Code("strategy", "own_relay:Relay", "team 't'") in code_in(manifest)


def test_the_schema_for_editors_accepts_a_path() -> None:
    from jsonschema import Draft202012Validator

    team = {"members": ["a"], "strategy": "own_relay:Relay", "options": {"rounds": 2}}
    assert not list(Draft202012Validator(manifest_schema()).iter_errors({"teams": {"t": team}}))
