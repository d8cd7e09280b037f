"""`runs kpi`: what it prints, what it exits with, and what it says of a gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.history.kpis import FIGURES
from tests.kit.terminal import Call, write_team

TEAM = """\
agents:
  lead: {function: 'tests.cli.paid_agents:lead'}
  writer: {function: 'tests.cli.paid_agents:write'}
  critic: {function: 'tests.cli.paid_agents:criticise', optional: true}
teams:
  report: {strategy: sequential, members: [writer, critic]}
  led: {strategy: hierarchical, members: [lead, writer], hierarchical: {lead: lead}}
"""


@pytest.fixture
def runs(call: Call, tmp_path: Path) -> None:
    """Three runs: one that went well, one in which a member failed, one that was led."""
    folder = write_team(tmp_path / "report", TEAM)
    assert call("run", folder, "Go", "--team", "report", "--run-id", "well").code == 0
    assert call("run", folder, "Please fail", "--team", "report", "--run-id", "half").code == 3
    assert call("run", folder, "Go", "--team", "led", "--run-id", "led").code == 0


@pytest.mark.usefixtures("runs")
def test_json_has_every_figure_by_its_name(call: Call) -> None:  # Z-12
    found = call("runs", "kpi", "well", "--json").json
    assert {*FIGURES, "run_id", "team", "status", "stop_reason", "assumed", "judged", "gates"} == found.keys()
    assert (found["total_tokens"], found["coordination_ratio"], found["pass_rate"], found["steps"]) == (
        180,
        0.0,
        1.0,
        2,
    )
    assert (found["run_id"], found["team"], found["status"], found["gates"]) == ("well", "report", "completed", [])


@pytest.mark.usefixtures("runs")
def test_several_runs_stand_side_by_side(call: Call) -> None:  # Z-12
    lines = call("runs", "kpi", "well", "half", "led").out.splitlines()
    cells = {line.split("  ")[0]: [one.strip() for one in line.split("  ")[1:] if one.strip()] for line in lines}
    assert lines[0].split() == ["well", "half", "led"]
    assert cells["status"] == ["completed (done)", "degraded (done)", "completed (done)"]
    assert cells["steps"] == ["2 (2 passed)", "2 (1 passed, 1 failed)", "1 (1 passed)"]
    assert cells["pass_rate"] == ["not reviewed"] * 3
    assert cells["defect_escape"] == ["not reviewed"] * 3
    assert cells["coordination_ratio"] == ["0.0000", "0.0000", "0.2000"]
    assert cells["total_tokens"] == ["180", "80", "100"]
    every = call("runs", "kpi", "well", "half", "led", "--json").json
    assert [one["run_id"] for one in every] == ["well", "half", "led"]


@pytest.mark.usefixtures("runs")
def test_gates_that_are_kept_exit_with_0(call: Call) -> None:  # Z-12
    done = call("runs", "kpi", "led", "--gate", "default", "--gate", "total_tokens<=100", "--gate", "p95_latency_s<=60")
    assert (done.code, done.err) == (0, "")
    kept = [line.split()[1:] for line in done.out.splitlines() if "=" in line]
    assert kept == [["passed"], ["passed", "(assumed)"], ["passed"], ["passed"]]


@pytest.mark.usefixtures("runs")
def test_a_broken_gate_exits_with_1_after_the_report_and_is_named_with_its_figure(
    call: Call, tmp_path: Path
) -> None:  # Z-12
    done = call("runs", "kpi", "half", "--gate", "default")
    assert done.code == 1
    assert "pass_rate>=0.8" in done.out
    assert (
        done.err
        == "run 'half' fails the gate pass_rate>=0.8: pass_rate is 0.5 (1 assumed), and has to be at least 0.8\n"
    )
    report = tmp_path / "kpi.json"
    done = call("runs", "kpi", "led", "half", "--gate", "coordination_ratio<=0.1", "--json", "--out", report)
    assert (done.code, done.out) == (1, "")
    assert "'led' fails the gate coordination_ratio<=0.1: coordination_ratio is 0.2," in done.err
    assert '"passed": false' in report.read_text()


def test_a_gate_on_a_figure_without_data_fails_as_unknown(call: Call, tmp_path: Path) -> None:  # Z-12
    manifest = "agents: {a: {function: 'tests.cli.paid_agents:unmetered'}}\nteams: {t: {members: [a]}}"
    assert call("run", write_team(tmp_path / "silent", manifest), "Go", "--run-id", "silent").code == 0
    done = call("runs", "kpi", "silent", "--gate", "total_tokens<=1000000", "--gate", "pass_rate>=0.8")
    unknown = "total_tokens is unknown, since the run has no data for it, and may be at most 1000000"
    assert (done.code, done.err) == (1, f"run 'silent' fails the gate total_tokens<=1000000: {unknown}\n")
    (gate,) = call("runs", "kpi", "silent", "--gate", "total_tokens<=1000000", "--json").json["gates"]
    assert (gate["value"], gate["passed"]) == (None, False)


@pytest.mark.usefixtures("runs")
def test_bad_gates_and_unknown_runs_exit_with_2(call: Call) -> None:  # Z-12
    for text, expected in (("fast", "is no gate"), ("pas_rate>=1", "pass_rate"), ("pass_rate>=x", "and a number")):
        done = call("runs", "kpi", "well", "--gate", text)
        assert (done.code, done.out) == (2, "")
        assert expected in done.err
    assert call("runs", "kpi", "wall", "--json").code == 2
    assert call("runs", "kpi").code == 2


@pytest.mark.usefixtures("runs")
def test_many_runs_are_chosen_and_added_up(call: Call) -> None:
    done = call("runs", "kpi", "--limit", "3", "--total", "--gate", "pass_rate>=0.9")
    assert done.code == 1
    assert done.out.splitlines()[0].split() == ["total"]
    assert "5 (4 passed, 1 failed)" in done.out
    assert "the total of 3 runs" in done.err
    assert "the total fails the gate pass_rate>=0.9: pass_rate is 0.8 (4 assumed)" in done.err
    found = call("runs", "kpi", "--team", "report", "--total", "--json").json
    assert (found["total_tokens"], found["runs"], found["status"]) == (260, ["half", "well"], "degraded")
    assert [one["run_id"] for one in call("runs", "kpi", "--limit", "2", "--json").json] == ["led", "half"]


@pytest.mark.usefixtures("runs")
def test_a_run_that_is_named_twice_counts_once(call: Call) -> None:
    found = call("runs", "kpi", "well", "wel", "half", "well", "--total", "--json").json
    assert (found["total_tokens"], found["runs"]) == (260, ["well", "half"])


@pytest.mark.usefixtures("runs")
def test_the_total_of_several_teams_says_so(call: Call) -> None:
    assert "\nteam                 several\n" in call("runs", "kpi", "--limit", "3", "--total").out


@pytest.mark.usefixtures("runs")
def test_older_runs_of_a_team_are_found_and_a_total_says_what_it_leaves_out(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("teamwright.cli.runs.kpi.MOST_RUNS", 1)
    done = call("runs", "kpi", "--team", "report", "--total", "--json")
    assert done.json["runs"] == ["half"]
    assert "the newest 1 of 2 runs" in done.err


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("arguments", "words"),
    [((), "Name a run"), (("well", "--limit", "2"), "not both"), (("--team", "nobody"), "no run of the team 'nobody'")],
)
def test_runs_that_can_not_be_chosen_are_refused_in_words(call: Call, arguments: tuple[str, ...], words: str) -> None:
    done = call("runs", "kpi", *arguments)
    assert done.code == 2
    assert words in done.err
