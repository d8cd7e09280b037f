"""Handoffs between members: who is next in each strategy, what is recorded, and what is refused before a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.scripted import Rule, ScriptedAgent, ToolRule
from teamwright.agents.tools.built_in import as_tool, transfer_definition, transfer_message
from teamwright.errors import ManifestError, UsageError
from teamwright.runtime.engine import Engine
from teamwright.strategies.registry import BUILT_IN_STRATEGIES, find_strategy
from teamwright.strategies.team_conversation import TAKEN_BY
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentAsked
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamHandoff, TeamRouted, TeamSelected
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import HandoffTarget, Reply, Turn

seen: dict[str, list[Turn]] = {}


def member(name: str, *to: str | None, say: str | None = None, handoffs: Sequence[str] | bool = True) -> FunctionAgent:
    """A member that hands its first turn to the first name, and so on; then it answers."""
    turns = seen[name] = []

    def respond(turn: Turn) -> Reply:
        turns.append(turn)
        target = to[len(turns) - 1] if len(turns) <= len(to) else None
        text = say if say is not None else f"{name} {len(turns)}"
        return Reply(messages=(Message(name=name, content=text),) if text else (), transfer_to=target)

    return FunctionAgent(name, respond, handoffs=handoffs)


async def run(team: Team | FunctionAgent, task: str = "go") -> tuple[RunResult, list[Event]]:
    async with Engine("memory") as engine:
        result = await engine.run(team, task)
        return result, list((await engine.runs.history(result.run_id)).events)


def asked(events: Sequence[Event]) -> list[str]:
    return [one.fact.member for one in events if isinstance(one.fact, AgentAsked)][1:]


def handed(events: Sequence[Event]) -> list[tuple[str, str]]:
    return [(one.fact.source, one.fact.to) for one in events if isinstance(one.fact, TeamHandoff)]


async def test_in_a_pipeline_a_handoff_jumps_to_a_member_and_continues_from_there() -> None:  # L-H-1
    team = Team("t", members=[member("a", "c"), member("b"), member("c", "b"), member("d")], max_turns=9)
    result, events = await run(team)
    assert asked(events) == ["a", "c", "b", "c", "d"]
    assert handed(events) == [("a", "c"), ("c", "b")]
    assert result.output == "d 1"


async def test_in_a_pipeline_with_a_member_twice_a_handoff_goes_to_its_next_place() -> None:  # L-H-1
    again = member("a", None, None)
    team = Team("t", members=[again, member("b", "a"), member("c"), again, member("d")], max_turns=9)
    assert asked((await run(team))[1]) == ["a", "b", "a", "d"]


async def test_in_a_round_robin_the_order_continues_from_the_member_that_is_named() -> None:  # L-H-2
    members = [member("a", "c"), member("b", "a"), member("c", "b")]
    result, events = await run(Team("t", members=members, strategy="round_robin", max_turns=2))
    assert asked(events) == ["a", "c", "b", "a", "b", "c"]
    assert result.stop_reason == "max_turns"
    keys = [one.key for one in events if isinstance(one.fact, AgentAsked)][1:]
    assert keys == ["t/round-1/a", "t/round-1/c", "t/round-1/b", "t/round-2/a", "t/round-2/b", "t/round-2/c"]


async def test_a_member_may_speak_twice_in_a_round() -> None:  # L-H-2
    members = [member("a", "b", "b"), member("b", "a", "a"), member("c")]
    _, events = await run(Team("t", members=members, strategy="round_robin", max_turns=1))
    assert [one.key for one in events if isinstance(one.fact, AgentAsked)][1:] == [
        "t/round-1/a",
        "t/round-1/b",
        "t/round-1/turn-3/a",
    ]


async def test_a_handoff_goes_before_the_choice_of_a_selector() -> None:  # L-H-3
    chooser = FunctionAgent("chooser", lambda turn: "a")
    edges: list[JsonValue] = [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}, {"from": "c", "to": "a"}]
    team = Team(
        "t",
        members=[member("a", "c"), member("b"), member("c")],
        helpers=[chooser],
        strategy="selector",
        max_turns=3,
        options={"agent": "chooser", "edges": edges},
    )
    _, events = await run(team)
    assert asked(events) == ["chooser", "a", "c", "a"]
    assert [one.fact.member for one in events if isinstance(one.fact, TeamSelected)] == ["a", "a"]


async def test_a_handoff_goes_before_the_edges_of_a_graph_and_then_those_of_its_target_apply() -> None:  # L-H-4
    edges: list[JsonValue] = [{"from": "a", "to": "b"}, {"from": "c", "to": "d"}]
    team = Team(
        "t",
        members=[member("a", "c"), member("b"), member("c"), member("d", handoffs=())],
        strategy="graph",
        max_turns=9,
        options={"edges": edges},
    )
    _, events = await run(team)
    assert asked(events) == ["a", "c", "d"]
    assert [one.fact.to for one in events if isinstance(one.fact, TeamRouted)] == ["d"]


async def test_a_graph_of_handoffs_alone_ends_with_the_first_answer_without_one() -> None:  # L-H-4
    members = [member("triage", "billing"), member("billing", "refunds"), member("refunds")]
    result, events = await run(Team("desk", members=members, strategy="graph", max_turns=9))
    assert asked(events) == ["triage", "billing", "refunds"]
    assert (result.output, result.stop_reason) == ("refunds 1", "done")


async def test_ping_pong_ends_at_the_limit() -> None:  # L-H-5
    members = [member("a", *"b" * 9), member("b", *"a" * 9)]
    result, events = await run(Team("t", members=members, strategy="graph", max_turns=4))
    assert asked(events) == ["a", "b", "a", "b"]
    assert result.stop_reason == "max_turns"
    team = Team("t", members=[member("a", *"b" * 9), member("b", *"a" * 9)], max_turns=3, on_max_turns="fail")
    assert ((await run(team))[0].status, len(seen["a"])) == ("failed", 2)


async def test_a_handoff_without_a_word_passes_on_what_its_member_had() -> None:  # L-H-6
    team = Team("t", members=[member("a", "c", say=""), member("b"), member("c")], share="output", max_turns=5)
    result, _ = await run(team, "the task")
    assert seen["c"][0].task == "the task"
    assert [one.content for one in result.messages] == ["c 1"]


async def test_what_is_said_with_a_handoff_is_shared_as_the_team_says() -> None:  # L-H-6
    team = Team("t", members=[member("a", "c", say="over to c"), member("b"), member("c")], max_turns=5)
    await run(team)
    assert [one.content for one in seen["c"][0].history] == ["over to c"]


async def test_a_handoff_to_a_member_that_was_not_offered_is_a_failure() -> None:  # L-H-7
    team = Team("t", members=[member("a", "c", handoffs=["b"]), member("b"), member("c")], max_turns=5)
    result, _ = await run(team)
    assert result.failure is not None
    assert "'a' handed off to 'c', which is none of its handoffs; known are b" in result.failure.message


def model(name: str, *parts: ToolCallPart | TextPart, **more: Any) -> ModelAgent:
    """A model agent that answers with these parts, and writes down the tools that it is offered."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        offered[name] = [tool.name for tool in info.function_tools]
        return ModelResponse(parts=list(parts))

    return ModelAgent(name, model=FunctionModel(answer), **more)


offered: dict[str, list[str]] = {}


async def test_a_model_calls_a_tool_to_hand_off_and_may_say_why() -> None:  # L-H-8
    triage = model("triage", ToolCallPart("transfer_to_billing", {"message": "An invoice."}), handoffs=["billing"])
    billing = model("billing", TextPart("Paid."), handoffs=True)
    result, events = await run(Team("desk", members=[triage, billing], strategy="graph", max_turns=5))
    assert [one.content for one in result.messages] == ["An invoice.", "Paid."]
    assert handed(events) == [("triage", "billing")]
    assert offered == {"triage": ["transfer_to_billing"], "billing": ["transfer_to_triage"]}


async def test_tools_beside_a_handoff_are_called_first() -> None:  # L-H-8
    notes: list[str] = []

    def note(text: str) -> str:
        """Note it."""
        notes.append(text)
        return "noted"

    calls = (ToolCallPart("transfer_to_b", {}, "1"), ToolCallPart("note", {"text": "x"}, "2"))
    team = Team("t", members=[model("a", *calls, tools=[note], handoffs=["b"]), member("b", handoffs=())])
    result, _ = await run(team)
    assert (notes, result.output) == (["x"], "b 1")


async def test_terminate_goes_before_a_handoff() -> None:
    calls = (ToolCallPart("transfer_to_b", {}, "1"), ToolCallPart("terminate", {"response": "end"}, "2"))
    team = Team("t", members=[model("a", *calls, tools=["terminate"], handoffs=["b"]), member("b", handoffs=())])
    result, events = await run(team)
    assert (result.output, handed(events)) == ("end", [])


async def test_a_scripted_agent_hands_off_too() -> None:  # L-H-8
    rule = Rule(tool=ToolRule(name="transfer_to_b", args={"message": "yours"}))
    members = [ScriptedAgent("a", [rule], handoffs=["b"]), member("x", handoffs=()), member("b", handoffs=())]
    result, events = await run(Team("t", members=members))
    assert (asked(events), result.output) == (["a", "b"], "b 1")


@pytest.mark.parametrize("say", ["over to c", ""])
async def test_envelopes_keep_the_handoff(say: str) -> None:  # L-H-6
    team = Team("t", members=[member("a", "c", say=say), member("b"), member("c")], share="a2a_lite", max_turns=5)
    result, events = await run(team)
    assert (asked(events), result.output) == (["a", "c"], "c 1")


async def test_a_team_is_handed_to_like_any_member() -> None:
    inner = Team("inner", members=[member("x", handoffs=())])
    _, events = await run(Team("t", members=[member("a", "inner"), member("b"), inner], max_turns=5))
    assert asked(events) == ["a", "inner", "x"]


def test_the_tool_tells_who_takes_over_and_what_for() -> None:
    definition = transfer_definition(HandoffTarget("dr.who", "Knows the time."))
    assert definition.name == "transfer_to_dr_who"
    assert definition.description == "End your turn and hand the conversation over to 'dr.who'. Knows the time."


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        ({"message": " hi "}, "", "hi"),
        ('{"message": "hi"}', "text", "text\n\nhi"),
        ({"message": "same"}, "same", "same"),
        ("{", "text", "text"),
        (None, "", ""),
        ({"message": 1}, "", ""),
    ],
)
def test_what_is_said_is_the_text_and_the_message(arguments: object, text: str, said: str) -> None:
    assert transfer_message(arguments, text) == said


def refused(*members: object, **more: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        Team("t", members=list(members), **more)  # pyright: ignore[reportArgumentType]
    return "\n".join(str(one) for one in caught.value.problems)


def test_an_unknown_target_is_refused_with_the_nearest_name() -> None:  # L-H-9
    text = refused(member("a", handoffs=["biling"]), member("billing"), max_turns=3)
    assert "'a' hands off to 'biling', which is no member of its team; did you mean 'billing'?" in text


def test_handoffs_are_refused_where_they_would_have_no_effect() -> None:  # L-H-9
    a, b = member("a"), member("b", handoffs=())
    assert "'a' has handoffs, which the strategy 'fan_out' does not take" in refused(a, b, strategy="fan_out")
    assert "'a' has handoffs and is alone in its team" in refused(a)
    assert "'a' can't hand off to itself" in refused(member("a", handoffs=["a"]), b, max_turns=1)
    chosen = {"strategy": "selector", "max_turns": 2, "options": {"agent": "c"}}
    assert "'c' has handoffs and is no member" in refused(b, member("d", handoffs=()), helpers=[member("c")], **chosen)
    twins = (member("x", handoffs=True), member("a.b", handoffs=()), member("a_b", handoffs=()))
    assert "whose tools would have the same name, 'transfer_to_a_b'" in refused(*twins)


def test_an_agent_with_handoffs_can_not_be_a_tool() -> None:  # L-H-9
    with pytest.raises(UsageError, match="'a' has handoffs, so it can't be a tool; make its team the tool"):
        as_tool(member("a"))


def test_handoffs_that_lead_back_need_a_limit() -> None:  # L-H-5
    assert "'sequential' needs max_turns, since 'b' may hand back to 'a'" in refused(member("a"), member("b"))
    assert Team("t", members=[member("a"), member("b", handoffs=())])
    assert "edges and handoffs lead back: a → b → a" in refused(member("a"), member("b"), strategy="graph")


def test_the_strategies_that_take_handoffs_are_those_that_messages_name() -> None:
    takers = [name for name in BUILT_IN_STRATEGIES if find_strategy(name).takes_handoffs]
    assert f"{', '.join(takers[:-1])} and {takers[-1]}" == TAKEN_BY


def test_handoffs_are_recorded_with_the_agent(tmp_path: Path) -> None:
    assert ModelAgent("a", model="local", handoffs=["b"]).spec.handoffs == ("b",)
    assert ModelAgent("a", model="local", handoffs=True).spec.handoffs is True
    assert "handoffs" not in ModelAgent("a", model="local").spec.model_fields_set


def test_a_diagram_shows_handoffs() -> None:
    team = Team("t", members=[member("a", handoffs=["b"]), member("b", handoffs=())])
    arrows = team.strategy.diagram(team.settings, team.members).arrows  # pyright: ignore[reportArgumentType]
    assert [(one.source, one.to, one.label) for one in arrows] == [("a", "b", ""), ("a", "b", "hands off")]
