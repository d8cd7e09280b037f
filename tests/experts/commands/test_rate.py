"""Experts are rated at the command line by what past runs say of their work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.terminal import Call

pytestmark = pytest.mark.experts

TEAM = """
agents:
  writer:
    scripted: replies.yaml
    evaluate: {rounds: 2, criteria: [{id: cites, contains: "[1]"}]}
  reader: {scripted: replies.yaml}
teams:
  report: {members: [writer, reader]}
"""
REPLIES = """
rules:
  - {agent: writer, match: "Say it without", reply: It rains.}
  - {agent: writer, match: "Review 1", reply: "It rains [1]."}
  - {agent: writer, reply: It rains.}
  - {agent: reader, reply: Fine.}
"""


@pytest.fixture
def runs(tmp_path: Path, call: Call) -> None:
    (tmp_path / "team.yaml").write_text(TEAM, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    for number in range(3):
        assert call("run", tmp_path / "team.yaml", "Does it rain?", "--run-id", f"well-{number}").code == 0
    assert call("run", tmp_path / "team.yaml", "Say it without a source.", "--run-id", "badly").code == 1


@pytest.mark.usefixtures("runs")
def test_a_table_says_who_passed_how_often(call: Call) -> None:
    done = call("experts", "rate")
    head, writer, reader = done.out.splitlines()[:3]
    assert head.split()[:5] == ["EXPERT", "TEMPLATE", "RUNS", "STEPS", "ASSUMED"]
    assert writer.split()[:8] == ["writer", "–", "4", "4", "0", "4", "75%", "(≥"]
    assert reader.split()[:7] == ["reader", "–", "3", "3", "3", "0", "–"]
    assert "95 %" in done.out


@pytest.mark.usefixtures("runs")
def test_json_has_every_figure(call: Call) -> None:
    found = call("experts", "rate", "--json").json
    assert (found["runs"], found["templates"], found["left_out"]) == (4, [], {})
    writer = found["experts"][0]
    assert (writer["judged"], writer["passed"], writer["first_time"], writer["revisions"]) == (4, 3, 0.0, 1.0)
    assert writer["tokens_per_pass"] > 0


@pytest.mark.usefixtures("runs")
def test_single_runs_and_teams_can_be_chosen(call: Call, tmp_path: Path) -> None:
    assert call("experts", "rate", "badly", "--json").json["experts"][0]["pass_rate"] == 0.0
    assert call("experts", "rate", "--team", "report", "--json").json["runs"] == 4
    done = call("experts", "rate", "--team", "other")
    assert (done.code, "no run of the team 'other'" in done.err) == (2, True)
    file = tmp_path / "ratings.json"
    assert call("experts", "rate", "--json", "--out", file).code == 0
    assert '"experts"' in file.read_text(encoding="utf-8")


def test_experts_of_one_template_are_rated_together(call: Call, tmp_path: Path) -> None:
    expert = "{scripted: replies.yaml, expert: editor, evaluate: {criteria: [{id: ends, regex: '[.]$'}]}}"
    text = f"agents: {{ann: {expert}, bob: {expert}}}\nteams: {{t: {{members: [ann, bob]}}}}\n"
    (tmp_path / "team.yaml").write_text(text, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text("rules: [{agent: ann, reply: Good.}, {reply: bad}]", encoding="utf-8")
    assert call("run", tmp_path / "team.yaml", "go").code == 1
    found = call("experts", "rate", "--json").json
    assert [(one["name"], one["template"], one["pass_rate"]) for one in found["experts"]] == [
        ("ann", "editor", 1.0),
        ("bob", "editor", 0.0),
    ]
    assert [(one["name"], one["judged"], one["pass_rate"]) for one in found["templates"]] == [("editor", 2, 0.5)]
    assert call("experts", "rate").out.count("editor") == 3


def test_runs_in_which_nothing_was_judged_say_how_to_change_that(call: Call, tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("rules: [{reply: done}]", encoding="utf-8")
    file = tmp_path / "team.yaml"
    file.write_text("agents: {a: {scripted: replies.yaml}}\nteams: {t: {members: [a]}}\n", encoding="utf-8")
    assert call("run", file, "go").code == 0
    assert "No work in these runs was judged: set  evaluate" in call("experts", "rate").out
