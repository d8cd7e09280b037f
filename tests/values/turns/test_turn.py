"""Turns, replies and failures."""

from __future__ import annotations

from msgspec.structs import replace

from teamwright.values.turns.messages import EnvelopeLimits, History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

HISTORY = History.of([Message(name="a", content="first"), Message(name="b", content="second")])


def test_the_task_comes_last_in_a_prompt() -> None:
    assert Turn("do it").prompt == "do it"
    assert Turn("do it", HISTORY).prompt == "# a:\nfirst\n\n# b:\nsecond\n\ndo it"


def test_the_digest_of_a_turn_covers_the_whole_prompt() -> None:
    turn = Turn("do it", HISTORY)
    others = [
        replace(turn, task="do that"),
        replace(turn, history=History.of([])),
        replace(turn, purpose="judge"),
        replace(turn, tools=()),
        replace(turn, tools=("search",)),
        replace(turn, max_output=5),
    ]
    assert len({one.digest for one in (turn, *others)}) == 7
    assert Turn("do it", HISTORY).digest == turn.digest


def test_a_turns_number_is_no_part_of_its_digest() -> None:
    assert Turn("x", number=1).digest == Turn("x", number=2).digest


def test_the_last_thing_said_is_the_answer() -> None:
    assert Reply().text == ""
    assert Reply.of("a", "x").text == "x"
    two = Reply(messages=(Message(name="a", content="x"), Message(name="a", content="y")))
    assert two.text == "y"


def test_a_failure_is_no_reply() -> None:  # contracts: Failures
    failure = Failure(member="a", error="timeout", message="too slow")
    assert not isinstance(failure, Reply)
    assert not hasattr(failure, "text")


def test_limits_of_an_envelope_are_no_part_of_what_a_turn_is_recognised_by() -> None:  # Z-03
    assert Turn("go", envelope_limits=EnvelopeLimits()).digest == Turn("go").digest


def test_a_turn_knows_whether_there_is_something_to_open() -> None:
    plain = History.of([Message(name="a", content="see artifact://0")])
    assert not Turn("go", plain).has_pointers
    assert Turn("open artifact://0").has_pointers


def test_a_reply_is_its_own_whole_unless_it_stands_for_another() -> None:
    said = Reply.of("a", "all of it")
    assert said.full is said
    assert Reply.of("a", "in short", whole=said).full is said
