"""Interventions from another process: what the commands print, and what the run makes of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.test_processes import start
from tests.cli.test_question_prompt import Terminal
from tests.kit.program import Program
from tests.kit.terminal import Call, write_team

TEAM = """\
agents:
  first: {function: 'steps:first'}
  second: {function: 'steps:second'}
teams:
  report: {members: [first, second], limits: {calls: 1}}
"""
STEPS = """\
import pathlib, time

def first(task: str) -> str:
    while not pathlib.Path({go!r}).exists():
        time.sleep(0.02)
    return "first is done"

def second(turn) -> str:
    return turn.prompt
"""


@pytest.fixture
def waiting(tmp_path: Path) -> Generator[Program]:
    """A run in another process, whose first member waits for the file `go`."""
    team = write_team(tmp_path / "team", TEAM)
    (team / "steps.py").write_text(STEPS.format(go=str(tmp_path / "go")))
    process = start("run", team, "Go", "--run-id", "one", "--events")
    assert process.stdout is not None
    while "agent.called" not in process.stdout.readline():
        pass
    yield process
    process.kill()
    process.communicate()


def ends(process: Program, folder: Path) -> int:
    (folder / "go").touch()
    process.communicate(timeout=20)
    return process.returncode


def test_a_running_team_is_told_something_and_its_budget_is_raised(
    waiting: Program, tmp_path: Path, call: Call
) -> None:
    assert call("runs", "steer", "one", "say", "Be brief.", "--by", "ann").out.startswith("say: accepted (event ")
    raised = call("runs", "steer", "one", "budget", "--max-calls", "5", "--json").json
    assert {**raised, "number": 0} == {
        "run_id": "one",
        "intervention": "raise_budget",
        "inbox_id": 2,
        "status": "accepted",
        "number": 0,
        "key": "",
    }
    assert ends(waiting, tmp_path) == 0
    assert "Be brief." in call("runs", "show", "one", "--json").json["output"]
    notes = call("runs", "show", "one").out
    assert "ann sent: 'Be brief.'" in notes
    assert "in effect: 'Be brief.'" in notes
    assert "in effect: raise the budget to 5 calls" in notes


def test_one_member_of_a_running_team_is_paused_and_resumed(
    waiting: Program, tmp_path: Path, call: Call
) -> None:
    assert call("runs", "steer", "one", "budget", "--max-calls", "5").code == 0
    assert call("runs", "steer", "one", "pause", "second").out.startswith("pause member: accepted")
    assert ends(waiting, tmp_path) == 7
    assert "let it go on with: teamwright runs steer one resume second" in call("runs", "show", "one").out
    sent = call("runs", "steer", "one", "say", "Welcome back.")
    assert sent.out == "say: sent\n"
    assert "the run has no driver; it takes effect after: teamwright runs resume one" in sent.err
    assert call("runs", "steer", "one", "resume", "second").out == "resume member: sent\n"
    resumed = call("runs", "resume", "one", "--quiet")
    assert resumed.code == 0
    assert "Welcome back." in resumed.out


def test_what_a_run_cannot_take_is_an_error_in_words(
    waiting: Program, tmp_path: Path, call: Call
) -> None:
    refused = call("runs", "steer", "one", "say", "Hi", "--member", "secnd")
    assert refused.code == 1
    assert "Run 'one' can't take it: there is no member 'secnd'; did you mean 'second'?" in refused.err
    unreadable = call("runs", "steer", "one", "say", "-", stdin=b"\xff")
    assert unreadable.code == 2
    assert "The message in stdin is not UTF-8 text" in unreadable.err
    assert call("runs", "steer", "one", "budget").code == 2
    assert call("runs", "cancel", "one").code == 0
    assert waiting.wait(20) == 6
    assert call("runs", "steer", "one", "say", "Hi").code == 1


LIVE = """\
agents:
  lead: {model: scripted:replies.yaml}
  joiner: {model: scripted:replies.yaml, confirm: {before: true}}
  painter: {model: scripted:replies.yaml}
teams:
  shed:
    strategy: live
    members: [lead, joiner]
    live: {steps: [{id: walls, agent: joiner, task: Build the walls.}, {id: roof, agent: joiner, task: Build it.}]}
"""
LIVE_REPLIES = """\
rules:
  - {agent: painter, reply: The walls are blue.}
  - {agent: joiner, reply: It stands.}
  - {agent: lead, reply: The shed is built.}
"""
EDITOR = """\
import pathlib, sys
print("an editor draws on the terminal")
path = pathlib.Path(sys.argv[-1])
path.write_text(path.read_text().replace("Build it.", "Build a green roof."))
"""


@pytest.mark.experts
def test_the_plan_of_a_team_is_edited_and_its_members_change(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = write_team(tmp_path / "shed", LIVE, LIVE_REPLIES)
    (tmp_path / "editor.py").write_text(EDITOR)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {tmp_path / 'editor.py'}")
    assert call("run", team, "Build a shed.", "--team", "shed", "--run-id", "one", "--no-input").code == 7
    edited = call("runs", "steer", "one", "plan", "--yes")
    assert '-      "task": "Build it."' in edited.err
    assert '+      "task": "Build a green roof."' in edited.err
    assert edited.out == "edit plan: sent\n"
    assert call("runs", "steer", "one", "add", "painter", "--from", team).out == "add member: sent\n"
    walls = {"id": "walls", "agent": "joiner", "task": "Build the walls."}
    (tmp_path / "plan.yaml").write_text(json.dumps({"steps": [walls, {"id": "paint", "agent": "painter"}]}))
    assert call("runs", "steer", "one", "plan", "--file", tmp_path / "plan.yaml", "--json").json["status"] == "sent"
    change = {"put": [{"task": "Build the walls.", "id": "walls", "agent": "joiner"}]}  # as it is
    (tmp_path / "same.yaml").write_text(json.dumps(change))
    assert "nothing was sent" in call("runs", "steer", "one", "plan", "--file", tmp_path / "same.yaml", "--yes").err
    assert call("runs", "steer", "one", "restore", "1").out == "restore plan: sent\n"
    assert call("runs", "steer", "one", "plan", "--file", tmp_path / "plan.yaml", "--yes").out == "edit plan: sent\n"
    assert "'two' is no version of a plan" in call("runs", "steer", "one", "restore", "two").err
    assert call("runs", "steer", "one", "remove", "lead").out == "remove member: sent\n"
    call("runs", "answer", "one", "approve")
    resumed = call("runs", "resume", "one", "--quiet", "--no-input")
    assert resumed.code == 7, resumed.err
    call("runs", "answer", "one", "approve")
    assert call("runs", "resume", "one", "--quiet", "--no-input").code == 0
    shown = call("runs", "show", "one").out
    assert "+ paint (painter); - roof (joiner): Build a green roof." in shown
    assert "in effect: version 1 of the plan again" in shown
    assert "joiner leads now: joiner, painter; left: lead" in shown
    assert "the team is dissolved; its outputs stay" in shown
    assert "The walls are blue." in shown


@pytest.mark.experts
def test_a_step_is_stopped(tmp_path: Path, call: Call) -> None:
    team = write_team(tmp_path / "shed", LIVE, LIVE_REPLIES)
    assert call("run", team, "Build a shed.", "--team", "shed", "--run-id", "one", "--no-input").code == 7
    assert call("runs", "steer", "one", "stop", "roof", "No wood.", "--by", "ann").out == "stop step: sent\n"
    refused = call("runs", "steer", "one", "stop", "attic")
    assert (refused.code, "there is no step 'attic'" in refused.err) == (1, True)
    assert "Write what to stop: teamwright runs steer RUN stop STEP" in call("runs", "steer", "one", "stop").err
    call("runs", "answer", "one", "approve")
    while (resumed := call("runs", "resume", "one", "--quiet", "--no-input")).code == 7:
        call("runs", "answer", "one", "approve")
    assert resumed.code == 3
    assert "the step 'roof' was stopped by ann: No wood." in resumed.err
    shown = call("runs", "show", "one").out
    assert "ann sent: stop the step roof: 'No wood.'" in shown
    assert "attic" not in shown
    assert "step roof was skipped: a person stopped it" in shown


@pytest.mark.experts
def test_a_person_edits_the_plan_at_the_terminal_and_sends_it_or_not(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = write_team(tmp_path / "shed", LIVE, LIVE_REPLIES)
    (tmp_path / "editor.py").write_text(EDITOR)
    monkeypatch.setenv("EDITOR", f"{sys.executable} {tmp_path / 'editor.py'}")
    assert call("run", team, "Build a shed.", "--team", "shed", "--run-id", "one", "--no-input").code == 7
    for typed, sent in (("\n", ""), ("y\n", "edit plan: sent\n")):
        terminal = Terminal("runs", "steer", "one", "plan")
        terminal.until("send this plan? [y/N] ")
        terminal.types(typed)
        assert terminal.ended() == (0, sent)
        assert "an editor draws on the terminal" in terminal.shown


def test_a_run_without_a_plan_says_so(tmp_path: Path, call: Call) -> None:
    team = write_team(tmp_path / "team", "agents: {a: {model: scripted:replies.yaml}}", "rules: [{reply: Hi.}]")
    call("run", team, "Go", "--run-id", "one", "--quiet")
    refused = call("runs", "steer", "one", "plan")
    assert refused.code == 2
    assert "The run 'one' records no plan to edit; write the change into a file: --file FILE." in refused.err
    unknown = call("runs", "steer", "one", "add", "z", "--from", team)
    assert unknown.code == 2
    assert "'z'" in unknown.err


def test_a_plan_is_shown_without_what_a_terminal_obeys_and_nothing_where_there_is_none(
    tmp_path: Path, call: Call
) -> None:
    team = write_team(tmp_path / "team", PLANNED, "rules: [{reply: Hi.}]")
    assert call("run", team, "Go", "--team", "flat", "--run-id", "one", "--no-input").code == 7
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"put": [{"id": "c", "agent": "a", "task": "Red\u202egreen"}]}))
    shown = call("runs", "steer", "one", "plan", "--file", plan, "--yes")
    assert shown.out == "edit plan: sent\n"
    assert "green" in shown.err
    assert "\u202e" not in shown.err
    call("run", team, "Go", "--run-id", "two", "--team", "led", "--no-input")
    plan.write_text(json.dumps({"remove": ["x"]}))
    shown = call("runs", "steer", "two", "plan", "--file", plan, "--yes")
    assert "null" not in shown.err


PLANNED = """
agents:
  a: {model: scripted:replies.yaml, confirm: {before: true}}
  b: {model: scripted:replies.yaml}
teams:
  flat: {members: [a, b], strategy: dag, dag: {steps: [{id: a}, {id: b}]}}
  led: {members: [a, b], strategy: plan, plan: {lead: a}}
"""
