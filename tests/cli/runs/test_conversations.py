"""`teamwright run --conversation`, and the commands that list and print conversations and undo turns."""

from pathlib import Path

import pytest

from tests.kit.terminal import DESK, Call, write_team

REPLIES = """\
rules:
  - match: my name
    reply: You are Ada.
  - reply: Hello, Ada.
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return write_team(tmp_path / "desk", DESK, REPLIES)


def test_a_conversation_goes_on_from_run_to_run(call: Call, desk: Path) -> None:
    first = call("run", desk, "I am Ada.", "--conversation", "talk", "--json")
    assert (first.code, first.json["output"]) == (0, "Hello, Ada.")
    second = call("run", "What is my name?", "--conversation", "talk", "--json")  # with the team of the turn before
    assert (second.code, second.json["output"]) == (0, "You are Ada.")
    listed = call("runs", "list", "--json").json
    assert [run["conversation"] for run in listed] == ["talk", "talk"]
    assert "CONVERSATION" in call("runs", "list").out
    conversations = call("runs", "conversations", "--json").json
    assert [(one["name"], one["turns"], one["last_run"]) for one in conversations] == [("talk", 2, listed[0]["id"])]
    assert "talk" in call("runs", "conversations").out
    assert call("runs", "conversations", "talk").out == (
        "> I am Ada.\n\nHello, Ada.\n\n> What is my name?\n\nYou are Ada.\n"
    )
    turns = call("runs", "conversations", "talk", "--json").json["turns"]
    assert [(turn["task"], turn["status"]) for turn in turns] == [
        ("I am Ada.", "completed"), ("What is my name?", "completed"),
    ]  # fmt: skip


def test_runs_outside_a_conversation_are_listed_as_before(call: Call, desk: Path) -> None:
    call("run", desk, "I am Ada.")
    assert "conversation" not in call("runs", "list", "--json").json[0]
    assert "CONVERSATION" not in call("runs", "list").out
    assert "There are no conversations yet." in call("runs", "conversations").err


def test_mistakes_are_refused_before_anything_runs(call: Call, desk: Path) -> None:
    unknown = call("run", "What is my name?", "--conversation", "talk")
    assert unknown.code == 2
    assert "There is no conversation 'talk' to continue: name a manifest to begin it." in unknown.err
    assert call("run", desk, "Hi", "--conversation", "talks").code == 0
    for command in (("run", "Hi"), ("chat",)):
        misspelt = call(*command, "--conversation", "talk")
        assert (misspelt.code, "did you mean 'talks'?" in misspelt.err) == (2, True)
    invalid = call("run", desk, "Hi", "--conversation", "my talk")
    assert invalid.code == 2
    assert "can't name a conversation" in invalid.err
    call("run", desk, "Hi", "--conversation", "talk")
    missing = call("runs", "conversations", "tlak")
    assert missing.code == 2
    assert "did you mean 'talk'" in missing.err


def test_the_last_turn_can_be_undone_outside_a_chat(call: Call, desk: Path) -> None:
    for task in ("I am Ada.", "What is my name?"):
        call("run", desk, task, "--conversation", "talk")
    first = call("runs", "conversations", "talk", "--json").json["turns"][0]["run_id"]
    undone = call("runs", "conversations", "talk", "--undo", "--json")
    assert undone.code == 0
    assert (undone.json["name"], undone.json["undone"]["task"], undone.json["continues"]) == (
        "talk", "What is my name?", first,
    )  # fmt: skip
    assert call("runs", "conversations", "talk").out == "> I am Ada.\n\nHello, Ada.\n"
    assert call("runs", "conversations", "talk", "--undo").out == "undone: I am Ada.\n"
    assert (call("runs", "conversations", "talk", "--undo").code, len(call("runs", "list", "--json").json)) == (2, 2)
    assert "did you mean 'talk'" in call("runs", "conversations", "tlak", "--undo").err


def test_undoing_a_turn_that_has_not_ended_cancels_it(call: Call, desk: Path) -> None:
    approved = DESK.replace("{model: primary}", "{model: primary, confirm: {before: true}}")
    (desk / "team.yaml").write_text(approved, encoding="utf-8")
    assert call("run", desk, "I am Ada.", "--conversation", "talk", "--no-input").code == 7
    assert call("runs", "conversations", "talk", "--undo").out == "undone: I am Ada.\n"
    assert [run["status"] for run in call("runs", "list", "--json").json] == ["cancelled"]
    assert "has no turns: all were undone" in call("runs", "conversations", "talk").out
