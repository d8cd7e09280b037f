"""The predicted asks of strategies: the keys must be those of the real asks."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright import Engine, FunctionAgent, Team
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import AgentAsked

STEPS: list[JsonValue] = [
    {"id": "one", "agent": "b", "execution_tokens": 20, "coordination_tokens": 5},
    {"id": "two", "agent": "c", "needs": ["one"]},
]


def team(strategy: str, max_turns: int | None = None, **options: JsonValue) -> Team:
    members = [FunctionAgent(name, lambda turn: "a b c") for name in "abc"]
    return Team("t", members=members, strategy=strategy, max_turns=max_turns, options=options)


TEAMS = {
    "sequential": team("sequential"),
    "round_robin": team("round_robin", max_turns=2),
    "selector": team("selector", max_turns=2, agent="a"),
    "graph": team(
        "graph", max_turns=2, edges=[{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "a"}]
    ),
    "fan_out": team("fan_out", chunks=["x", "y"], aggregator="c"),
    "dag": team("dag", steps=STEPS),
    "single": team("single", steps=STEPS),
    "lead_subagent": Team(
        "t",
        members=[FunctionAgent(name, lambda turn: "done") for name in "ab"],
        strategy="lead_subagent",
        options={"steps": [{"id": "one", "execution_tokens": 25}, {"id": "two"}]},
    ),
    "star_team": team("star_team", steps=STEPS),
    "mesh_team": team("mesh_team", steps=STEPS),
}


@pytest.mark.parametrize("made", TEAMS.values(), ids=TEAMS)
async def test_every_ask_that_is_predicted_is_made(made: Team) -> None:  # Z-11
    foretold = made.strategy.expected_asks(made.settings, Members(made.members, made.helpers))
    async with Engine("memory") as engine:
        result = await engine.run(made, "Go.")
        events = await engine.journal.read(result.run_id)
    asked = [event.key.removeprefix("t/") for event in events if isinstance(event.fact, AgentAsked)]
    assert foretold
    for key in foretold:
        assert any(one == key or one.startswith(f"{key}/") for one in asked), (key, asked)


def test_steps_are_predicted_with_what_they_are_expected_to_take() -> None:  # Z-11
    made = TEAMS["star_team"]
    assert made.strategy.expected_asks(made.settings, Members(made.members)) == {"one": 25, "two": 0, "lead/answer": 0}


def test_nothing_is_predicted_where_nothing_is_known() -> None:
    made = team("hierarchical", orchestrator="a")
    assert made.strategy.expected_asks(made.settings, Members(made.members)) == {}
