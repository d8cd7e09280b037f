"""A team's conversation: the turn of the next member, the messages so far, and the turn limit.

The predicted asks of strategies have the keys of the real asks.
"""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from teamwright import Engine, FunctionAgent, Team
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.strategies.protocol import Members, Settings, Task
from teamwright.strategies.team_conversation import TeamConversation, can_terminate, stop_at_limit
from teamwright.values.events.agent import AgentAsked
from teamwright.values.specs.members import Share
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply
from tests.kit.members import FakeMembers

HISTORY = History.of([Message(name="user", content="before", role="user")])


def talk(share: Share = "transcript") -> TeamConversation:
    return TeamConversation(Task("the task", HISTORY, Settings(share=share)))


def test_with_the_transcript_all_members_receive_everything_and_the_task_last() -> None:
    conversation = talk()
    conversation.add(Reply.of("a", "one"))
    conversation.add(Reply(messages=(Message(name="b", content="two"), Message(name="b", content="three"))))
    turn = conversation.turn(3)
    assert [message.content for message in turn.history] == ["before", "one", "two", "three"]
    assert (turn.task, turn.number) == ("the task", 3)
    assert turn.prompt.endswith("the task")


def test_with_the_output_only_the_previous_reply_is_received() -> None:  # P-03
    conversation = talk("output")
    first = conversation.turn(1)
    assert (first.task, len(first.history)) == ("the task", 1)
    conversation.add(Reply.of("a", "one"))
    conversation.add(Reply.of("b", "two"))
    after = conversation.turn(3)
    assert (after.task, len(after.history)) == ("two", 0)


@pytest.mark.parametrize("share", ["transcript", "output"])
def test_what_was_there_before_is_not_returned(share: Share) -> None:
    conversation = talk(share)
    conversation.add(Reply.of("a", "one"))
    assert [message.content for message in conversation.messages] == ["one"]
    assert len(HISTORY) == 1


def test_a_turn_that_was_handed_out_does_not_change_later() -> None:
    conversation = talk()
    turn = conversation.turn(1)
    conversation.add(Reply.of("a", "one"))
    assert len(turn.history) == 1


def test_the_last_reply_is_the_answer() -> None:
    conversation = talk()
    conversation.add(Reply.of("a", "one"))
    conversation.add(Reply.of("b", "two", data={"n": 2}))
    outcome = conversation.ended("done", "a warning")
    assert (outcome.stop_reason, outcome.data, outcome.warnings) == ("done", {"n": 2}, ("a warning",))
    assert outcome.messages[-1].content == "two"
    assert talk().ended("done").messages == ()


def test_a_failure_keeps_the_messages() -> None:
    conversation = talk()
    conversation.add(Reply.of("a", "one"))
    failure = Failure(member="b", error="timeout", message="slow")
    outcome = conversation.failed(failure)
    assert (outcome.stop_reason, outcome.failure) == ("error", failure)
    assert [message.content for message in outcome.messages] == ["one"]


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
    "fan_out": team("fan_out", chunks=["x", "y"], answer="c"),
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
    made = team("hierarchical", lead="a")
    assert made.strategy.expected_asks(made.settings, Members(made.members)) == {}


def talk_with_one_reply() -> TeamConversation:
    conversation = TeamConversation(Task("go"))
    conversation.add(Reply.of("a", "said"))
    return conversation


def test_who_has_the_tool_can_terminate() -> None:
    assert can_terminate(ScriptedAgent("a", [Rule(reply="x")], tools=["terminate"]))
    assert not can_terminate(ScriptedAgent("a", [Rule(reply="x")]))
    assert not can_terminate(FakeMembers().member("a"))


def test_a_limit_ends_the_team_well_with_a_warning_that_names_it() -> None:
    outcome = stop_at_limit(talk_with_one_reply(), Settings(max_turns=2), "2 rounds")
    assert (outcome.stop_reason, outcome.failure) == ("max_turns", None)
    assert outcome.warnings == ("stopped at its limit of 2 rounds (max_turns: 2)",)


def test_a_limit_is_named_by_its_option() -> None:
    outcome = stop_at_limit(talk_with_one_reply(), Settings(), "3 decisions", "max_iterations: 3")
    assert outcome.warnings == ("stopped at its limit of 3 decisions (max_iterations: 3)",)


def test_a_limit_may_be_a_failure_and_its_messages_are_kept() -> None:
    outcome = stop_at_limit(talk_with_one_reply(), Settings(max_turns=2, on_max_turns="fail"), "2 rounds")
    assert outcome.stop_reason == "max_turns"
    assert outcome.failure is not None
    assert outcome.failure.error == "max_turns"
    assert [message.content for message in outcome.messages] == ["said"]
