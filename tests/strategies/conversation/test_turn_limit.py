"""The turn limit of a team."""

from __future__ import annotations

from teamwright.agents.scripted.agent import Rule, ScriptedAgent
from teamwright.strategies.conversation.turn_limit import can_terminate, stop_at_limit
from teamwright.strategies.protocol import Settings, Task
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.turns.turn import Reply
from tests.kit.members import FakeMembers


def talk() -> TeamConversation:
    conversation = TeamConversation(Task("go"))
    conversation.add(Reply.of("a", "said"))
    return conversation


def test_who_has_the_tool_can_terminate() -> None:
    assert can_terminate(ScriptedAgent("a", [Rule(reply="x")], tools=["terminate"]))
    assert not can_terminate(ScriptedAgent("a", [Rule(reply="x")]))
    assert not can_terminate(FakeMembers().member("a"))


def test_a_limit_ends_the_team_well_with_a_warning_that_names_it() -> None:
    outcome = stop_at_limit(talk(), Settings(max_turns=2), "2 rounds")
    assert (outcome.stop_reason, outcome.failure) == ("max_turns", None)
    assert outcome.warnings == ("stopped at its limit of 2 rounds (max_turns: 2)",)


def test_a_limit_is_named_by_its_option() -> None:
    outcome = stop_at_limit(talk(), Settings(), "3 decisions", "max_iterations: 3")
    assert outcome.warnings == ("stopped at its limit of 3 decisions (max_iterations: 3)",)


def test_a_limit_may_be_a_failure_and_its_messages_are_kept() -> None:
    outcome = stop_at_limit(talk(), Settings(max_turns=2, on_max_turns="fail"), "2 rounds")
    assert outcome.stop_reason == "max_turns"
    assert outcome.failure is not None
    assert outcome.failure.error == "max_turns"
    assert [message.content for message in outcome.messages] == ["said"]
