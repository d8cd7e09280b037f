from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.kit.terminal import Call, write_team

TEAM = """\
agents:
  clerk: {model: primary}
  judge: {model: primary}
teams:
  desk: {members: [clerk]}
models:
  primary: {model: "scripted:replies.yaml", price: {input: 1, output: 10}}
"""
REPLIES = """\
rules:
  - {agent: clerk, match: "capital of (France|Spain)", reply: The capital is Paris.}
  - {agent: clerk, reply: I do not know.}
  - {agent: judge, match: "capital is Paris", json: {criteria: [{id: polite, passed: true, score: 0.8}]}}
  - {agent: judge, json: {criteria: [{id: polite, passed: false, score: 0.2, reason: it is curt}]}}
"""
CASES = """\
id,task,expected,tags
france,What is the capital of France?,Paris,europe
spain,What is the capital of Spain?,Madrid,europe
chile,What is the capital of Chile?,Santiago,america
"""
JUDGED = """\
evaluate: {judge: judge, criteria: [{id: polite, judge: "Is it polite?"}]}
cases:
  - {id: france, task: What is the capital of France?, output: The capital is Paris., label: pass}
  - {id: chile, task: What is the capital of Chile?, output: Go away., label: pass}
"""


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    folder = write_team(tmp_path / "desk", TEAM, REPLIES)
    (folder / "data").mkdir()
    (folder / "data" / "cases.csv").write_text(CASES)
    (folder / "data" / "judged.yaml").write_text(JUDGED)
    return folder


def test_a_team_is_measured_on_a_data_set_and_the_same_command_runs_nothing_again(call: Call, desk: Path) -> None:
    first = call("eval", desk, desk / "data" / "cases.csv")
    assert first.code == 0, first.err
    assert first.out.splitlines()[1].split()[:7] == ["desk", "3", "1", "of", "3", "33", "%"]
    assert "spain  desk  0 of 1  the answer lacks 'Madrid'" in first.out
    runs = call("runs", "list", "--json").json
    assert call("eval", desk, desk / "data" / "cases.csv").out == first.out
    assert call("runs", "list", "--json").json == runs
    (desk / "replies.yaml").write_text(REPLIES.replace("I do not know.", "It is Santiago."))
    assert "2 of 3" in call("eval", desk, desk / "data" / "cases.csv").out


@pytest.mark.experts
def test_a_judge_grades_and_is_measured_by_labels(call: Call, desk: Path) -> None:
    found = call("eval", desk, desk / "data" / "judged.yaml", "--json").json
    assert [(one["case"], one["passed"], one["score"], one["reason"]) for one in found["trials"]] == [
        ("france", True, 0.8, ""),
        ("chile", False, 0.2, "polite: it is curt"),
    ]
    assert found["variants"][0]["judge_usd"] > 0
    assert (found["judge"]["agreement"]["value"], found["judge"]["fails_good"]) == (0.5, 0.5)
    assert "judge: agrees with 50 %" in call("eval", desk, desk / "data" / "judged.yaml").out


def test_gates_fail_with_their_figures(call: Call, desk: Path, tmp_path: Path) -> None:
    cases, before = desk / "data" / "cases.csv", tmp_path / "before.json"
    assert call("eval", desk, cases, "--gate", "pass_rate>=0.3", "--json", "--out", before).code == 0
    done = call("eval", desk, cases, "--gate", "pass_rate>=0.9", "--gate", "usd_per_pass<=0.000001")
    assert done.code == 1
    assert "gate failed: pass rate 33 % [6–79], and 0.9 is wanted" in done.err
    assert "gate failed: a pass costs $" in done.err
    assert call("eval", desk, cases, "--gate", before).code == 0
    report = json.loads(before.read_text())
    report["trials"] = [
        {**one, "case": f"{one['case']}-{n}", "passed": True} for n in range(20) for one in report["trials"]
    ]
    before.write_text(json.dumps(report))
    (desk / "data" / "many.jsonl").write_text(
        "".join(
            json.dumps({"id": one["case"], "task": f"Case {one['case']}", "expected": "Paris"}) + "\n"
            for one in report["trials"]
        )
    )
    worse = call("eval", desk, desk / "data" / "many.jsonl", "--gate", before)
    assert worse.code == 1
    assert "gate failed: worse than" in worse.err
    before.write_text("{}")
    assert "is no report" in call("eval", desk, cases, "--gate", before).err


def test_labels_that_nothing_judges_are_said_to_be_unused(call: Call, desk: Path) -> None:
    (desk / "data" / "labels.yaml").write_text(JUDGED.partition("\n")[2])
    assert "2 labels not used, because nothing judges" in call("eval", desk, desk / "data" / "labels.yaml").err


def test_a_gate_of_a_price_fails_where_no_price_is_known(call: Call, desk: Path) -> None:
    (desk / "team.yaml").write_text(TEAM.replace(", price: {input: 1, output: 10}", ""))
    done = call("eval", desk, desk / "data" / "cases.csv", "--gate", "usd_per_pass<=9")
    assert (done.code, "a pass has no known price" in done.err) == (1, True)


def test_two_teams_are_compared_and_the_page_has_a_plot(call: Call, desk: Path, tmp_path: Path) -> None:
    other = write_team(tmp_path / "other", TEAM, REPLIES.replace("I do not know.", "It is Santiago."))
    done = call("eval", desk, desk / "data" / "cases.csv", "--against", other)
    assert f"can't tell 'desk ({desk})' and 'desk ({other})' apart" in done.out
    page = tmp_path / "report.html"
    assert call("eval", desk, desk / "data" / "cases.csv", "--out", page).code == 0
    assert "<svg" in page.read_text()


@pytest.mark.experts
def test_recorded_runs_become_a_data_set_with_verdicts_as_labels(call: Call, desk: Path, tmp_path: Path) -> None:
    reviewed = TEAM.replace(
        "clerk: {model: primary}",
        "clerk: {model: primary, evaluate: {risk: low, judge: judge, criteria: [{id: polite, judge: Is it polite?}]}}",
    )
    (desk / "team.yaml").write_text(reviewed)
    call("run", desk, "What is the capital of France?", "--run-id", "one")
    call("run", desk, "What is the capital of Chile?", "--run-id", "two")
    assert call("eval", desk, desk / "data" / "cases.csv").code == 0
    out = tmp_path / "cases.jsonl"
    assert call("eval", "--from", "all", "--out", out).code == 0
    found = {case["id"]: case for case in map(json.loads, out.read_text().splitlines())}
    assert found.keys() == {"one", "two"}
    assert found["one"] == {
        "id": "one", "task": "What is the capital of France?", "tags": ["desk"], "output": "The capital is Paris.",
        "label": "pass", "author": "clerk",
    }  # fmt: skip
    assert (found["two"]["label"], found["two"]["output"]) == ("fail", "I do not know.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Name the team and the data set"),
        (("--from", "all"), "--from writes a data set"),
        (("desk", "desk/data/odd.yaml"), "odd.yaml:1:11: evaluate: There is no judge 'juge'; did you mean 'judge'?"),
        (
            ("desk", "desk/data/odd.yaml"),
            "odd.yaml:5:5: case '3': the module of the check 'q', 'nope:f', can't be",
        ),
        (("desk", "desk/data/none.csv"), "There is no such file"),
    ],
)
def test_what_can_not_be_measured_is_refused(
    call: Call, desk: Path, arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = JUDGED.replace("judge: judge", "judge: juge")
    (desk / "data" / "odd.yaml").write_text(
        f"{odd}  - {{task: x, evaluate: {{criteria: [{{id: q, function: nope:f}}]}}}}\n"
    )
    monkeypatch.chdir(desk.parent)
    done = call("eval", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_record_that_can_not_be_read_is_named_and_skipped(call: Call, desk: Path, tmp_path: Path) -> None:
    call("run", desk, "What is the capital of France?", "--run-id", "one")
    call("run", desk, "What is the capital of Chile?", "--run-id", "two")
    journal = next(Path(os.environ["TEAMWRIGHT_HOME"]).rglob("*.db"))
    with closing(sqlite3.connect(journal)) as database, database:
        database.execute(
            "UPDATE events SET data = '{' WHERE position >> 32 = (SELECT place FROM runs WHERE id = 'two')"
        )
    done = call("eval", "--from", "all", "--out", tmp_path / "cases.jsonl")
    assert done.code == 1
    assert "left out: two: " in done.err
    assert [json.loads(line)["id"] for line in (tmp_path / "cases.jsonl").read_text().splitlines()] == ["one"]


def test_the_same_team_is_no_other_one_and_one_with_a_change_is(call: Call, desk: Path) -> None:
    cases = desk / "data" / "cases.csv"
    same = call("eval", desk, cases, "--against", desk)
    assert (same.code, "is the same team" in same.err) == (2, True)
    (change := desk / "data" / "change.yaml").write_text("models: {spare: 'openai:gpt-5-mini'}\n")
    done = call("eval", desk, cases, "--with", change, "--against", desk, "--json").json
    names = [f"desk ({desk}, {change})", f"desk ({desk})"]
    assert [(one["variant"], one["trials"]) for one in done["variants"]] == [(name, 3) for name in names]
