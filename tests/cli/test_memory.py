"""`teamwright memory`: a person sees, searches and removes what agents have noted."""

from pathlib import Path

import pytest

from tests.kit.terminal import Call, write_team

DESK = """\
agents:
  clerk: {model: primary, memory: own}
teams:
  desk: {members: [clerk]}
models:
  primary: scripted:replies.yaml
"""
REPLIES = """\
rules:
  - {match: tea, times: 1, tool: {name: remember, args: {text: Ada likes tea}}}
  - {match: coffee, times: 1, tool: {name: remember, args: {text: Bob likes coffee}}}
  - {reply: noted}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    return write_team(tmp_path / "desk", DESK, REPLIES)


def test_notes_are_listed_searched_and_removed(call: Call, desk: Path) -> None:  # L-C-11
    assert "There are no notes yet" in call("memory").err
    for task in ("tea", "coffee"):
        assert call("run", desk, task).out == "noted\n"
    assert call("memory").out == "desk/clerk  2\n"
    assert call("memory", "--json").json == [{"memory": "desk/clerk", "notes": 2}]
    assert call("memory", "desk/clerk").out == "2  Bob likes coffee\n1  Ada likes tea\n"
    (found,) = call("memory", "desk/clerk", "tea", "--json").json
    assert (found["id"], found["text"], found["author"]) == (1, "Ada likes tea", "clerk")
    assert call("memory", "desk/clerk", "--remove", "1").out == "removed 1\n"
    assert "No notes found." in call("memory", "desk/clerk", "tea").err
    assert "there is no memory 'desk/clark'; did you mean 'desk/clerk'?" in call("memory", "desk/clark").err
    again = call("memory", "desk/clerk", "--remove", "1")
    assert again.code == 2
    assert "There is no note 1 in 'desk/clerk'" in again.err
    assert call("memory", "--remove", "1").code == call("memory", "desk/clerk", "tea", "--remove", "1").code == 2


def test_a_memory_is_checked_at_load(call: Call, desk: Path) -> None:
    (desk / "team.yaml").write_text(DESK.replace("memory: own", "memory: {name: own}"), encoding="utf-8")
    wrong = call("validate", desk)
    assert wrong.code == 2
    assert "team.yaml:2" in wrong.err
