"""A reviewed run at the command line: what the terminal, `runs show`, `runs logs` and `runs kpi` say about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.terminal import Call
from tests.paths import EXAMPLES

pytestmark = pytest.mark.experts

TEAM = """
agents:
  writer:
    model: scripted:replies.yaml
    evaluate:
      revisions: 1
      judge: critic
      criteria:
        - {id: cites, regex: '\\[\\d+\\]'}
        - {id: clear, judge: Is it clear?}
        - {id: 'true', judge: Is it true?}
  critic: {model: scripted:replies.yaml}
teams:
  report: {members: [writer]}
"""
REPLIES = """
rules:
  - {agent: writer, reply: "It rains [1]."}
  - {agent: critic, reply: '{"criteria": [{"id": "clear", "passed": true}, {"id": "witty", "passed": true}]}'}
"""
TOLD = "true: the judge gave no result for it; 1 of 3 criteria left out: true; invented, and not counted: witty"


@pytest.fixture
def failed_run(tmp_path: Path, call: Call) -> str:
    (tmp_path / "team.yaml").write_text(TEAM, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    done = call("run", tmp_path / "team.yaml", "Does it rain?", "--run-id", "r")
    assert (done.code, done.out) == (1, "")
    assert "the work of writer is evaluated (attempt 2): revise, score 0.67" in done.err
    assert TOLD in done.err
    assert "asks critic to judge" in done.err
    assert "You judge the work below" not in done.err
    assert "runs fork r --retry" in done.err
    return "r"


def test_a_verdict_can_be_read_wherever_a_run_is_shown(failed_run: str, call: Call) -> None:
    for command in (("runs", "show"), ("runs", "logs")):
        assert TOLD in call(*command, failed_run).out
    assert "Work did not pass its review" in call("runs", "show", failed_run).out
    assert "Rejected: it did not pass its review" in call("runs", "show", failed_run).out
    assert "You judge the work below" in call("runs", "show", failed_run, "--full").out
    told = call("runs", "show", failed_run, "--json").json
    verdicts = [entry["verdict"] for entry in told["story"] if "verdict" in entry]
    assert [[one["id"] for one in verdict["criteria"]] for verdict in verdicts] == [["cites", "clear", "true"]] * 2
    assert verdicts[0]["missing"] == ["true"]
    assert (told["stop_reason"], call("runs", "kpi", failed_run, "--json").json["judged"]) == ("review_exceeded", 0)


def test_a_run_that_failed_over_a_review_can_be_retried(failed_run: str, call: Call) -> None:
    assert call("runs", "fork", failed_run, "--retry", "--run-id", "s").code == 1
    judged = [entry for entry in call("runs", "show", "s", "--json").json["story"] if "verdict" in entry]
    assert len(judged) == 2


def test_the_drawing_of_a_team_says_what_is_reviewed_and_by_whom(tmp_path: Path, call: Call) -> None:
    (tmp_path / "team.yaml").write_text(TEAM, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    assert "reviewed by critic" in call("show", tmp_path / "team.yaml").out
    assert "reviewed steps: facts, notes" in call("show", EXAMPLES / "rubric").out
