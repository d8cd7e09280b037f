from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.terminal import Call, write_team

TEAM = """\
agents:
  planner: {model: primary}
  writer: {model: primary}
teams:
  letter: {members: [planner, writer]}
models:
  primary: {model: "scripted:replies.yaml", price: {input: 1, output: 10}}
"""
REPLIES = """\
rules:
  - {agent: planner, match: "Take care", reply: We meet on Friday.}
  - {agent: planner, reply: We meet on Monday.}
  - {agent: writer, match: Friday, reply: "Dear guests, come on Friday."}
  - {agent: writer, reply: "Dear guests, come on Monday."}
"""


@pytest.fixture
def bad(call: Call, tmp_path: Path) -> Path:
    folder = write_team(tmp_path / "letter", TEAM, REPLIES)
    call("run", folder, "Invite them.", "--run-id", "bad")
    return folder


def test_it_says_how_often_forks_before_each_step_mended_the_end(call: Call, bad: Path) -> None:
    done = call("runs", "blame", "bad", "friday", "--attempts", "2")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[1].split()[:5] == ["step-1", "planner", "2", "of", "2"]
    assert "forked before step 'step-1': 2 of 2 pass, 100 % [34–100]" in lines
    assert "forked before step 'step-2': 0 of 2 pass, 0 % [0–66]" in lines
    report = call("runs", "blame", "bad", "friday", "--attempts", "2", "--json").json
    assert [(one["step"], one["fixed"]) for one in report["steps"]] == [("step-1", 2), ("step-2", 0)]


def test_where_nothing_was_tried_it_says_so(call: Call, bad: Path) -> None:
    for options in (("--attempts", "0"), ("--max-usd", "0.0000001")):
        done = call("runs", "blame", "bad", "friday", *options)
        assert "nothing was tried, so these are guesses" in done.out
        steps = [line.split()[0] for line in done.out.splitlines()[1:3]]
        assert steps == ["step-1", "step-2"], "the most suspicious one is first"
        assert "pass" not in done.out


def test_another_model_is_tried_in_place_of_a_hint(call: Call, bad: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("rules: [{agent: planner, reply: We meet on Friday.}, {reply: No.}]\n")
    done = call("runs", "blame", "bad", "friday", "--attempts", "1", "--model", f"scripted:{other}")
    assert "forked before step 'step-1': 1 of 1 pass" in done.out
    fork = call("runs", "list", "--json").json[0]["id"]
    assert "Take care" not in call("runs", "show", fork).out


def test_a_case_of_a_data_set_says_what_a_good_end_is(call: Call, bad: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    cases.write_text('{"task": "Invite them.", "expected": "Friday"}\n')
    assert "2 of 2" in call("runs", "blame", "bad", "--from", cases, "--attempts", "2").out
    cases.write_text('{"task": "Invite no one."}\n')
    done = call("runs", "blame", "bad", "--from", cases)
    assert (done.code, "No case of" in done.err) == (2, True)


def test_a_run_that_ended_well_is_refused_with_what_to_say(call: Call, bad: Path) -> None:
    done = call("runs", "blame", "bad")
    assert done.code == 2
    assert "ended well, as far as it knows; say what is expected of it" in done.err
