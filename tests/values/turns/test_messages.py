"""Messages, and conversations that histories look at without copying."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from msgspec import ValidationError, convert

from teamwright.values.turns.messages import EMPTY, Conversation, History, Message, digest

parts = st.lists(st.text(st.characters()), min_size=1, max_size=4)


def said(*texts: str) -> list[Message]:
    return [Message(name="a", content=text) for text in texts]


@given(parts, parts)
def test_only_equal_strings_have_one_digest(one: list[str], other: list[str]) -> None:
    assert (digest(*one) == digest(*other)) == (one == other)


def test_a_message_is_frozen_and_closed() -> None:
    message = Message(name="a", content="x")
    with pytest.raises(AttributeError):
        message.content = "y"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValidationError):
        convert({"name": "a", "content": "x", "more": 1}, Message)


def test_a_history_stays_as_it_is_when_the_conversation_grows() -> None:
    conversation = Conversation()
    conversation.extend(said("one", "two"))
    before = conversation.history()
    conversation.append(said("three")[0])
    assert [message.content for message in before] == ["one", "two"]
    assert len(conversation.history()) == len(conversation) == 3
    assert before.digest != conversation.history().digest


def test_a_history_is_a_sequence() -> None:
    history = History.of(said("one", "two", "three"))
    assert history[0].content == "one"
    assert history[-1].content == "three"
    assert [message.content for message in history[1:]] == ["two", "three"]
    assert said("two")[0] in history
    assert next(reversed(history)).content == "three"
    for index in (3, -4):
        with pytest.raises(IndexError):
            history[index]
    assert "3 messages" in repr(history)


def test_the_same_messages_have_the_same_digest_wherever_they_came_from() -> None:
    conversation = Conversation()
    for message in said("one", "two"):
        conversation.append(message)
    assert conversation.history().digest == History.of(said("one", "two")).digest
    assert History.of([]).digest == EMPTY.digest


def test_who_speaks_and_in_which_role_are_part_of_the_digest() -> None:
    asked = Message(name="a", content="x", role="user")
    answered = Message(name="a", content="x")
    other = Message(name="b", content="x")
    assert len({History.of([message]).digest for message in (asked, answered, other)}) == 3


def test_new_messages_are_distinguished_from_earlier_ones() -> None:
    conversation = Conversation()
    conversation.extend(said("old"))
    start = len(conversation)
    conversation.extend(said("new"))
    assert [message.content for message in conversation.since(start)] == ["new"]
