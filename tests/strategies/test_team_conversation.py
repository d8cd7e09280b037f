"""A team's conversation: the turn of the next member, and the messages so far."""

from __future__ import annotations

import pytest

from teamwright.strategies.protocol import Settings, Task
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.specs.manifest import Share
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply

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
