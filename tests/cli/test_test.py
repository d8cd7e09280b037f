"""A run becomes a test on the command line: made, replayed, rewritten, reported."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.kit.terminal import TEAM, Call


@pytest.fixture
def case(call: Call, team: Path) -> Path:
    """The case of a run of the team of two."""
    path = team / "tests" / "cases" / "trees.yaml"
    assert call("run", team, "Explain B-trees", "--run-id", "one").code == 0
    made = call("runs", "export", "one", "--out", path)
    assert (made.code, made.out) == (0, "")
    assert f"wrote {path} with 2 replies" in made.err
    return path


def test_a_run_becomes_a_case_that_passes(call: Call, team: Path, case: Path) -> None:
    assert "manifest: ../../team.yaml" in case.read_text()
    assert str(team) not in case.read_text() + case.with_name("trees.replies.jsonl").read_text()
    done = call("test", team, "--kill")
    assert done.code == 0
    assert done.out.startswith(f"passed  {case}")
    assert done.out.splitlines()[-1].startswith("1 case: 1 passed, 0 failed")
    assert "killed and resumed" in done.out


def test_a_difference_fails_and_is_reported_in_each_form(call: Call, team: Path, case: Path, tmp_path: Path) -> None:
    (team / "team.yaml").write_text(TEAM.replace("Judge.", "Judge kindly."))
    (broken := case.with_name("broken.yaml")).write_text("tasks: 1\n")
    report = tmp_path / "report.xml"
    done = call("test", case, broken, "--json", "--out", report)
    assert (done.code, done.json["passed"], done.json["failed"]) == (1, 0, 2)
    assert "+Judge kindly." in done.json["cases"][0]["findings"][0]["difference"]
    assert "broken.replies.jsonl: There is no such file" in str(done.json["cases"][1]["findings"])
    suite = ET.fromstring(report.read_text())
    assert (suite.get("tests"), suite.get("failures")) == ("2", "2")
    assert "+Judge kindly." in (suite.findtext("testcase/failure") or "")


def test_a_case_is_rewritten_after_a_look_at_the_difference(call: Call, team: Path, case: Path) -> None:
    (team / "team.yaml").write_text(TEAM.replace("Judge.", "Judge kindly."))
    assert call("test", case, "--update").code == 2
    assert call("test", case).code == 1
    done = call("test", case, "--update", "--yes")
    assert (done.code, "+Judge kindly." in done.out) == (0, True)
    assert call("test", case).code == 0


def test_what_was_never_recorded_is_asked_live(call: Call, team: Path, case: Path) -> None:
    grown = TEAM.replace("[writer, critic]", "[writer, critic, last]").replace(
        "teams:", "  last: {model: primary}\nteams:"
    )
    (team / "team.yaml").write_text(grown)
    (team / "replies.yaml").write_text((team / "replies.yaml").read_text() + "  - {agent: last, reply: Enough.}\n")
    done = call("test", case, "--update", "--yes")
    assert (done.code, "--live models --update" in done.err) == (1, True)
    assert call("test", case, "--live", "models", "--update", "--yes").code == 0
    assert "Enough." in case.read_text()
    assert call("test", case, "--kill").code == 0


def test_a_bad_run_becomes_a_regression_test_once_the_team_is_better(call: Call, team: Path, case: Path) -> None:
    text = case.read_text()
    case.write_text(text[: text.index("expect:")] + "expect: {status: completed, output: {match: (?i)balanced}}\n")
    assert call("test", case).code == 1
    (team / "team.yaml").write_text(TEAM.replace("Judge.", "Judge kindly."))
    (team / "replies.yaml").write_text("rules:\n  - {reply: It is balanced.}\n")
    assert call("test", case, "--live", "models").code == 0
    assert call("test", case).code == 1
    assert call("test", case, "--live", "models", "--update", "--yes").code == 0
    assert call("test", case, "--kill").code == 0
    before = case.with_name("trees.replies.jsonl").read_text()
    assert call("test", case, "--live", "models", "--update", "--yes").code == 0
    assert case.with_name("trees.replies.jsonl").read_text() == before


def test_a_fork_becomes_a_case_as_if_it_had_run_from_its_start(call: Call, team: Path, case: Path) -> None:
    assert call("runs", "fork", "one", "Explain B-trees again", "--run-id", "two").code == 0
    assert call("runs", "export", "two", "--out", case.with_name("fork.yaml")).code == 0
    assert "writer: 1" in case.with_name("fork.yaml").read_text()
    assert call("test", case.parent, "--kill").code == 0


def test_no_case_is_no_pass(call: Call, tmp_path: Path) -> None:
    done = call("test", tmp_path)
    assert (done.code, done.out) == (2, "")
    assert "There is no case" in done.err
