"""`teamwright lab simulate`, `calibrate` and `advise`: what they print, keep and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.terminal import Call
from tests.lab.simulated_teams import PLAN


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yaml"
    file.write_text(PLAN, encoding="utf-8")
    return file


def test_a_simulation_shows_shapes_side_by_side(call: Call, manifest: Path) -> None:
    done = call("lab", "simulate", manifest, "build it", "--runs", 5, "--seed", 7, "--topology", "single,star")
    assert done.code == 0
    for word in ("as declared", "single", "star_team", "tokens p50 / p90", "pass rate", "bottleneck", "critical path"):
        assert word in done.out


def test_a_simulation_is_the_same_again_and_fits_the_agreed_form(call: Call, manifest: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    first = call("lab", "simulate", manifest, "-", "--runs", 4, "--topology", "", "--json", stdin="build it")
    second = call("lab", "simulate", manifest, "build it", "--runs", 4, "--topology", "", "--json", "--out", out)
    assert (first.code, first.err, second.out) == (0, "", "")
    assert json.loads(out.read_text(encoding="utf-8")) == first.json
    assert list(first.json) == ["team", "task", "runs", "seed", "shapes", "missing", "notes"]
    [shape] = first.json["shapes"]
    assert list(shape) == [
        "shape", "strategy", "runs", "completed", "statuses", "problems", "pass_rate", "total_tokens",
        "coordination_tokens", "coordination_ratio", "messages", "usd", "seconds", "steps", "asks", "bottleneck",
        "critical_path",
    ]  # fmt: skip
    assert list(shape["seconds"]) == ["p50", "p90", "mean"]


def test_a_simulation_needs_no_task(call: Call, manifest: Path) -> None:
    done = call("lab", "simulate", manifest, "--runs", 3, "--topology", "", "--json")
    assert (done.code, done.json["task"], done.json["shapes"][0]["completed"]) == (0, "", 1.0)


def test_no_key_is_needed_to_simulate(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "team.yaml"
    file.write_text(
        "agents: {a: {model: {url: 'http://localhost:1/v1', name: m, api_key: '${NOBODY_HAS_IT}'}}}\n"
        "teams: {t: {members: [a]}}\n",
        encoding="utf-8",
    )
    assert call("lab", "simulate", file, "go", "--runs", 2).code == 0


def test_what_does_not_fit_is_refused_before_anything_runs(call: Call, manifest: Path, tmp_path: Path) -> None:
    done = call("lab", "simulate", manifest, "x", "--topology", "ring")
    assert (done.code, "There is no topology 'ring'" in done.err) == (2, True)
    done = call("lab", "simulate", manifest, "x", "--out", tmp_path / "no" / "file")
    assert done.code == 2
    done = call("lab", "simulate", manifest, "x", "--profile", "mine")
    assert (done.code, "There is no profile 'mine'" in done.err) == (2, True)
    text = PLAN.replace("skill: 0.7", "skill: 7")
    manifest.write_text(text, encoding="utf-8")
    done = call("lab", "simulate", manifest, "x")
    assert (done.code, "skill" in done.err) == (2, True)


def test_runs_calibrate_the_model_and_the_profile_is_used(call: Call, team: Path, tmp_path: Path) -> None:
    for number in range(2):
        assert call("run", team, "explain B-trees", "--run-id", f"r{number}").code == 0
    done = call("lab", "calibrate", "--topology", "star")
    assert done.code == 0
    for word in ("star_team", "execution", "off by", "No step in these runs was judged", "writer, critic"):
        assert word in done.out.replace("critic, writer", "writer, critic")
    assert "default.json" in done.err
    assert call("lab", "evaluate", "--profile", "default", "--json").json != call("lab", "evaluate", "--json").json
    file = tmp_path / "own.json"
    told = call("lab", "calibrate", "r0", "--topology", "star_team", "--out", file, "--json").json
    assert list(told) == ["calibration", "gaps", "left_out", "notes"]
    assert told["calibration"]["runs"] == ["r0"]
    simulated = call("lab", "simulate", team, "x", "--runs", 3, "--profile", file, "--topology", "", "--json").json
    # Scripted models answer immediately, and so do members calibrated from them.
    assert simulated["shapes"][0]["seconds"]["p90"] < 1
    learnt = call("lab", "simulate", team, "x", "--runs", 3, "--from", "r0", "--topology", "", "--json").json
    assert learnt["shapes"] == simulated["shapes"]
    assert call("lab", "advise", team, "x", "--profile", file).code == 0


JUDGED = """
agents:
  lead: {model: scripted:replies.yaml}
  one: {model: scripted:replies.yaml}
  two: {model: scripted:replies.yaml}
teams:
  t:
    strategy: star_team
    members: [lead, one, two]
    star_team:
      steps:
        - {id: a, agent: one, evaluate: {risk: low, criteria: [{id: cites, contains: "[1]"}]}}
        - {id: b, agent: two, evaluate: {risk: low, criteria: [{id: cites, contains: "[1]"}]}}
"""


@pytest.mark.experts
def test_what_evaluators_judged_calibrates_the_model_and_gives_advice(call: Call, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(JUDGED, encoding="utf-8")
    rules = 'rules: [{agent: one, reply: "see [1]"}, {agent: two, reply: see}, {agent: lead, reply: done}]'
    (tmp_path / "replies.yaml").write_text(rules, encoding="utf-8")
    assert call("run", tmp_path / "team.yaml", "go", "--run-id", "r").code == 3
    done = call("lab", "calibrate", "r")
    assert "judged steps         2" in done.out
    assert "No step in these runs was judged" not in done.out
    fit = call("lab", "calibrate", "r", "--json").json["calibration"]["topologies"]["star_team"]
    assert (fit["judged"], fit["pass_rate"]) == (2, 0.49)
    advice = call("lab", "advise", tmp_path / "team.yaml", "go", "--profile", "default")
    assert "judged steps (star_team 2) give their pass rates" in advice.out


def test_without_a_run_there_is_nothing_to_calibrate_with(call: Call) -> None:
    done = call("lab", "calibrate")
    assert (done.code, "no run to calibrate with" in done.err) == (2, True)


def test_runs_of_no_topology_are_reported(call: Call, team: Path) -> None:
    call("run", team, "explain B-trees", "--run-id", "r0")
    done = call("lab", "calibrate", "r0")
    assert done.code == 0
    assert "run r0 is left out: its strategy 'sequential' is not a topology" in done.err


def test_advice_is_reported_with_its_reasons_and_as_data(call: Call, manifest: Path) -> None:
    done = call("lab", "advise", manifest, "build it")
    assert done.code == 0
    assert done.out.startswith("Use ")
    assert "arXiv 2512.08296" in done.out
    assert "arXiv 2604.02460" in done.out
    told = call("lab", "advise", manifest, "build it", "--divisible", 0, "--json").json
    assert told["recommended"] == "star_team"
    assert told["sentence"].endswith("One agent would suit it better, but the steps name several members.")
    assert call("lab", "advise", manifest, "x", "--divisible", 3).code == 2
