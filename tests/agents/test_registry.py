"""The registry of agents: by name and by capability."""

from __future__ import annotations

import pytest

from teamwright.agents.agent import Agent, Context
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.registry import AgentRegistry
from teamwright.errors import DuplicateName, InvalidName, UnknownName
from teamwright.values.turns.turn import Reply, Turn


def shout(text: str) -> str:
    return text.upper()


def agent(name: str, *capabilities: str) -> FunctionAgent:
    return FunctionAgent(name, shout, capabilities=capabilities)


class Bare(Agent):
    """An agent that has nothing but what the protocol asks for."""

    kind = "bare"

    def __init__(self, name: str) -> None:
        self.name = name

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        return Reply.of(self.name, turn.task)


def test_agents_are_found_by_name_and_listed_in_order() -> None:  # P-01
    writer, reader = agent("writer"), agent("reader")
    registry = AgentRegistry([writer])
    assert registry.register(reader) is reader
    assert registry.get("writer") is writer
    assert registry.list() == tuple(registry) == (writer, reader)
    assert len(registry) == 2
    assert "writer" in registry
    assert "nobody" not in registry


def test_agents_are_found_by_what_they_can_do() -> None:
    registry = AgentRegistry([agent("a", "Search", "math"), agent("b", "math"), Bare("c")])
    assert [one.name for one in registry.search(capability="math")] == ["a", "b"]
    assert [one.name for one in registry.search(capability=" search ")] == ["a"]
    assert registry.search(capability="dance") == ()


def test_a_name_that_is_taken_is_refused() -> None:
    registry = AgentRegistry([agent("writer")])
    with pytest.raises(DuplicateName, match="already an agent 'writer'"):
        registry.register(agent("writer"))


def test_an_unknown_name_is_reported_with_the_nearest_ones() -> None:
    registry = AgentRegistry([agent("writer"), agent("reader")])
    with pytest.raises(UnknownName, match="no agent 'writr'; did you mean 'writer'"):
        registry.get("writr")
    with pytest.raises(UnknownName, match="none is known"):
        AgentRegistry().get("x")


def test_a_value_that_is_no_name_is_refused() -> None:
    with pytest.raises(InvalidName, match="'two-words'"):
        AgentRegistry([Bare("two words")])
