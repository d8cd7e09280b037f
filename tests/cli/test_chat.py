"""`teamwright chat` from a pipe: a line is a message, and the exit code says how the chat went."""

import json
from pathlib import Path

import pytest

from tests.kit.terminal import DESK, Call, write_team

REPLIES = """\
rules:
  - match: my name
    reply: You are Ada.
  - match: fail
    error: refused
  - match: slash
    reply: "A slash: /etc"
  - reply: Hello, Ada.
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return write_team(tmp_path / "desk", DESK, REPLIES)


def test_each_line_is_a_turn_and_each_answer_a_line(call: Call, desk: Path) -> None:  # L-C-5
    said = call("chat", desk, "--conversation", "talk", stdin="I am Ada.\n\nWhat is my name?\n")
    assert (said.code, said.out) == (0, "Hello, Ada.\nYou are Ada.\n")
    assert [run["conversation"] for run in call("runs", "list", "--json").json] == ["talk", "talk"]
    more = call("chat", "--conversation", "talk", stdin="And my name?\n")  # the team of the last turn
    assert more.out == "You are Ada.\n"


def test_with_json_each_turn_is_one_line_of_json(call: Call, desk: Path) -> None:  # L-C-5
    said = call("chat", desk, "--conversation", "talk", "--json", stdin="I am Ada.\n/cost\nWhat is my name?")
    assert [(one["output"], one["conversation"]) for one in said.lines] == [
        ("Hello, Ada.", "talk"), ("You are Ada.", "talk"),
    ]  # fmt: skip
    assert "talk: 1 turn" in said.err


def test_a_chat_without_a_name_gets_one(call: Call, desk: Path) -> None:
    (line,) = call("chat", desk, "--json", stdin="I am Ada.\n").lines
    assert line["conversation"].startswith("chat-")


def test_a_turn_that_fails_ends_a_piped_chat_with_its_exit_code(call: Call, desk: Path) -> None:  # L-C-5
    said = call("chat", desk, stdin="I am Ada.\nfail\nWhat is my name?\n")
    assert (said.code, said.out) == (1, "Hello, Ada.\n")
    assert "refused" in said.err


def test_undo_and_fork_change_what_the_next_turn_continues(call: Call, desk: Path) -> None:  # L-C-5
    said = call("chat", desk, "--conversation", "talk", stdin="one\ntwo\n/undo\n/fork side\nthree\n/fork\nfour\n")
    assert said.code == 0
    assert "undone: two" in said.err
    assert "this is side now; talk stays as it is" in said.err
    assert "this is side-2 now" in said.err

    def tasks(name: str) -> list[str]:
        return [turn["task"] for turn in call("runs", "conversations", name, "--json").json["turns"]]

    assert (tasks("talk"), tasks("side"), tasks("side-2")) == (["one"], ["three"], ["four"])
    messages = call("runs", "conversations", "side-2", "--json").json["messages"]
    assert [one["content"] for one in messages if one["role"] == "user"] == ["one", "three", "four"]


def test_the_cost_names_what_undone_turns_have_used(call: Call, desk: Path) -> None:
    said = call("chat", desk, "--conversation", "talk", stdin="one\ntwo\n/cost\n/undo\n/cost\n")
    before, after = [line for line in said.err.splitlines() if line.startswith("talk: ")]
    assert "undone" not in before
    assert after.startswith("talk: 1 turn · ")
    assert after.endswith(" tokens in undone turns")


def test_undo_in_a_new_fork_goes_back_by_a_turn_that_it_begins_with(call: Call, desk: Path) -> None:  # L-C-5
    said = call("chat", desk, "--conversation", "talk", stdin="one\ntwo\n/fork side\n/undo\nthree\n")
    assert "undone here: two" in said.err
    asked = [turn["task"] for turn in call("runs", "conversations", "talk", "--json").json["turns"]]
    messages = call("runs", "conversations", "side", "--json").json["messages"]
    assert asked == ["one", "two"]
    assert [one["content"] for one in messages if one["role"] == "user"] == ["one", "three"]


def test_undo_in_a_fork_ends_at_the_first_turn(call: Call, desk: Path) -> None:
    said = call("chat", desk, "--conversation", "talk", stdin="one\n/fork side\n/undo\n/undo\n")
    assert (said.code, "undone here: one" in said.err) == (2, True)
    assert "There is no turn to undo." in said.err


def test_undo_in_a_fork_goes_on_with_inherited_turns_after_its_own(call: Call, desk: Path) -> None:
    said = call("chat", desk, "--conversation", "talk", stdin="one\ntwo\n/fork side\nthree\n/undo\n/undo\nfour\n")
    assert "undone: three\n" in said.err
    assert "undone here: two\n" in said.err
    messages = call("runs", "conversations", "side", "--json").json["messages"]
    assert [one["content"] for one in messages if one["role"] == "user"] == ["one", "four"]


def test_a_fork_whose_turn_was_undone_can_be_forked_again(call: Call, desk: Path) -> None:
    call("chat", desk, "--conversation", "talk", stdin="one\n/fork side\ntwo\n/undo\n/fork again\nthree\n")
    messages = call("runs", "conversations", "again", "--json").json["messages"]
    assert [one["content"] for one in messages if one["role"] == "user"] == ["one", "three"]


def test_help_quit_and_slashes(call: Call, desk: Path) -> None:
    said = call("chat", desk, stdin="/help\n//slash\n/quit\nnever\n")
    assert (said.code, said.out) == (0, "A slash: /etc\n")
    assert "/fork [NAME]" in said.err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("/frok\n", "There is no command '/frok'; did you mean '/fork'?"),
        ("/undo\n", "There is no turn to undo."),
        ("one\n/undo two\n", "/undo takes nothing after it; write // at the start to send a line with a slash."),
        ("/quit now\n", "/quit takes nothing after it"),
        ("/fork\n", "There is nothing to fork yet"),
        ("one\n/fork my talk\n", "can't name a conversation"),
    ],
)
def test_a_wrong_command_ends_a_piped_chat(call: Call, desk: Path, lines: str, message: str) -> None:
    said = call("chat", desk, stdin=lines)
    assert said.code == 2
    assert message in said.err


def test_mistakes_are_reported_before_anything_is_read(call: Call, desk: Path) -> None:
    assert "Name a manifest" in call("chat", stdin="hi\n").err
    assert call("chat", desk / "none.yaml", stdin="hi\n").code == 2
    assert "can't name a conversation" in call("chat", desk, "--conversation", "my talk", stdin="hi\n").err


def test_an_interrupted_last_turn_has_to_be_finished_first(call: Call, desk: Path) -> None:  # L-C-3
    approved = DESK.replace("{model: primary}", "{model: primary, confirm: {before: true}}")
    (desk / "team.yaml").write_text(approved, encoding="utf-8")
    paused = call("chat", desk, "--conversation", "talk", stdin="one\ntwo\n")
    assert paused.code == 7
    assert "the turn waits: answer with  teamwright runs answer" in paused.err
    refused = call("chat", desk, "--conversation", "talk", "--json", stdin="two\n")
    assert refused.code == 1
    assert json.loads(refused.out)["error"]["kind"] == "ConversationBusy"
    call("runs", "answer", "last", "approve")
    said = call("chat", desk, "--conversation", "talk", stdin="/resume\n")
    assert (said.code, said.out) == (0, "Hello, Ada.\n")
