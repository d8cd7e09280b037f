"""Diagrams of strategies: every node is a member or a named thing, every arrow has both ends, members fit on a line."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright import FunctionAgent, Team, load_team
from teamwright.strategies import Outcome
from teamwright.strategies.protocol import (
    Arrow,
    Diagram,
    Members,
    Node,
    Settings,
    Strategy,
    chain_arrows,
    condition_label,
    description_line,
    introduction,
    places,
)
from teamwright.strategies.registry import BUILT_IN_STRATEGIES, find_strategy
from tests.paths import EXAMPLES


def agents(*names: str) -> list[FunctionAgent]:
    return [FunctionAgent(name, lambda turn: "x") for name in names]


def diagram(team: Team) -> Diagram:
    return team.strategy.diagram(team.settings, Members(team.members, team.helpers))


def arrows(found: Diagram) -> list[tuple[str, str, str]]:
    return [(arrow.source, arrow.to, arrow.label) for arrow in found.arrows]


@pytest.mark.parametrize("name", BUILT_IN_STRATEGIES)
def test_every_strategy_draws_its_team(name: str) -> None:
    assert type(find_strategy(name)).diagram is not Strategy.diagram
    team = load_team(EXAMPLES / name)
    found = diagram(team)
    ids = [node.id for node in found.nodes]
    assert len(ids) == len(set(ids))
    assert {end for arrow in found.arrows for end in (arrow.source, arrow.to)} <= set(ids)
    known = {agent.name for agent in (*team.members, *team.helpers)}
    assert {node.agent for node in found.nodes} - {""} == known
    assert len(found.arrows) == len(set(found.arrows))


class Undrawn(Strategy):
    """A third-party strategy that draws nothing."""

    name, version = "undrawn", 1

    def problems(self, settings: Settings, members: Members) -> list[str]:
        return []

    async def run(self, task: object, members: Members, ctx: object) -> Outcome:
        return Outcome()


def test_a_strategy_that_draws_nothing_is_its_members_in_order() -> None:
    found = diagram(Team("t", members=agents("a", "b"), strategy=Undrawn()))
    assert ([node.title for node in found.nodes], found.arrows) == (["a", "b"], ())


def test_a_member_that_stands_there_twice_has_two_places() -> None:
    one = agents("a", "b")
    found = diagram(Team("t", members=[*one, one[0]]))
    assert [(node.id, node.agent) for node in found.nodes] == [("a", "a"), ("b", "b"), ("a#2", "a")]
    assert arrows(found) == [("a", "b", ""), ("b", "a#2", "")]


def test_a_lone_member_has_a_place_and_no_arrow() -> None:
    nodes = places(agents("a"))
    assert chain_arrows(nodes) == ()
    assert (nodes[0].title, Node(id="i", label="l").title, Node(id="i").title) == ("a", "l", "i")


def test_rounds_lead_back_to_the_first() -> None:
    found = diagram(Team("t", members=agents("a", "b"), strategy="round_robin", max_turns=2))
    assert arrows(found) == [("a", "b", ""), ("b", "a", "the next round")]


def test_conditions_stand_on_the_arrows_of_a_graph() -> None:
    edges: list[JsonValue] = [{"from": "a", "to": "b", "when": "'no' in text"}, {"from": "a", "to": "c"}]
    found = diagram(Team("t", members=agents("a", "b", "c"), strategy="graph", options={"edges": edges}))
    assert arrows(found) == [("a", "b", "when 'no' in text"), ("a", "c", "")]
    assert condition_label(None) == ""


def test_the_selector_is_drawn_before_the_members() -> None:
    options: dict[str, JsonValue] = {"agent": "chair", "edges": [{"from": "a", "to": "b"}]}
    members, helpers = agents("a", "b"), agents("chair")
    team = Team("t", members=members, helpers=helpers, strategy="selector", max_turns=2, options=options)
    assert arrows(diagram(team)) == [("select", "a", "chooses"), ("select", "b", "chooses"), ("a", "b", "")]


def test_chunks_go_through_the_workers_to_the_aggregator() -> None:
    options: dict[str, JsonValue] = {"chunks": ["x", "y"], "answer": "sum", "max_parallel": 3}
    team = Team("t", members=agents("a", "b"), helpers=agents("sum"), strategy="fan_out", options=options)
    found = diagram(team)
    assert [node.title for node in found.nodes] == ["2 chunks", "a", "b", "sum"]
    assert ("a", "aggregate", "") in arrows(found)
    assert "3 at once" in found.notes
    alone = Team("t", members=agents("a"), helpers=agents("cut"), strategy="fan_out", options={"splitter": "cut"})
    assert arrows(diagram(alone)) == [("split", "a", "")]


def test_steps_follow_what_they_need_and_say_their_conditions() -> None:
    steps: list[JsonValue] = [
        {"id": "last", "agent": "a", "needs": ["b"]},
        {"id": "b", "when": "'x' in task"},
    ]
    team = Team("t", members=agents("a", "b"), strategy="dag", options={"steps": steps, "answer": "last"})
    found = diagram(team)
    assert [(node.id, node.agent, node.about) for node in found.nodes] == [
        ("b", "b", "when 'x' in task"), ("last", "a", "gives the answer")
    ]  # fmt: skip
    assert arrows(found) == [("b", "last", "")]


def test_specialists_answer_to_the_orchestrator() -> None:
    team = Team("t", members=agents("lead", "a"), strategy="hierarchical", options={"lead": "lead"})
    found = diagram(team)
    assert [node.agent for node in found.nodes] == ["lead", "a"]
    assert arrows(found) == [("decide", "a", "delegates to"), ("a", "decide", "")]


def test_events_are_drawn_between_their_emitters_and_subscribers() -> None:
    subscriptions: list[JsonValue] = [
        {"agent": "a", "on": "workflow.started", "emits": [{"type": "found", "when": "data"}]},
        {"agent": "b", "on": "found", "when": "depth < 3"},
    ]
    team = Team("t", members=agents("a", "b"), strategy="reactive", options={"subscriptions": subscriptions})
    found = diagram(team)
    assert [(node.title, node.agent) for node in found.nodes] == [
        ("workflow.started", ""), ("a", "a"), ("found", ""), ("b", "b")
    ]  # fmt: skip
    assert found.arrows == (
        Arrow(source="on workflow.started", to="a"),
        Arrow(source="a", to="on found", label="when data"),
        Arrow(source="on found", to="b", label="when depth < 3"),
    )
    assert found.nodes[3].about == "names what follows"


@pytest.mark.parametrize(
    ("description", "line", "introduced"),
    [("", "", "critic"), ("Finds\n  weak  spots.", "Finds weak spots.", "critic: Finds weak spots.")],
)
def test_a_member_is_introduced_by_name_and_description(description: str, line: str, introduced: str) -> None:
    agent = FunctionAgent("critic", lambda turn: "", description=description)
    assert description_line(agent) == line
    assert introduction(agent) == introduced
