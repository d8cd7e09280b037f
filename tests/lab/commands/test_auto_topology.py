"""`teamwright run --topology`: the choice is shown, runs, and is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teamwright.lab.calibration import Calibration, Fit
from tests.kit.terminal import Call
from tests.paths import EXAMPLES

TOPOLOGIES = EXAMPLES / "topologies"


def test_the_choice_is_explained_in_a_sentence_and_recorded_with_its_bundle(call: Call) -> None:  # Z-09
    done = call("run", TOPOLOGIES, "--topology", "auto", "--json", "--run-id", "chosen")
    assert (done.code, done.json["status"]) == (0, "completed")
    line = done.err.splitlines()[0]
    assert line.startswith(
        "single: the best balanced score (0.37) with a medium budget of those that keep to the gates"
    )
    assert "80% of the work can be divided" in line
    shown = call("runs", "show", "chosen")
    assert line.partition(": ")[2] in " ".join(shown.out.split())
    bundle = call("runs", "show", "chosen", "--json").json["bundle"]
    assert bundle["evaluation"]["recommendation"]["topology"] == bundle["decision"]["topology"] == "single"
    assert bundle["planner_settings"]["run_budget"] == 6 * 300 + 6 * 20
    assert len(bundle["budgets"]) == 6


def test_what_own_runs_have_taught_decides_the_choice(call: Call, tmp_path: Path) -> None:  # Z-09
    learnt = Calibration(topologies={"lead_subagent": Fit(runs=90, steps=900, judged=900, pass_rate=0.97)})
    (tmp_path / "mine.json").write_text(learnt.model_dump_json(), encoding="utf-8")
    profile = ("--profile", tmp_path / "mine.json")
    assert call("run", TOPOLOGIES, "--topology", "auto", *profile).err.startswith(
        "lead_subagent: the best balanced score"
    )
    assert call("lab", "advise", TOPOLOGIES, "x", *profile, "--json").json["recommended"] == "lead_subagent"


@pytest.mark.parametrize(
    ("needs", "topology"), [(True, "single"), (False, "star_team")], ids=["chain", "steps without needs"]
)
def test_auto_and_advice_are_one_decision(call: Call, tmp_path: Path, needs: bool, topology: str) -> None:
    tasks = [{"id": f"t{n}", "task": "Do it.", "needs": [f"t{n - 1}"] if n and needs else []} for n in range(24)]
    agents = {name: {"model": f"scripted:{ANYTHING.as_posix()}"} for name in ("lead", "a", "b", "c", "d")}
    file = tmp_path / "tasks.yaml"
    file.write_text(json.dumps({"tasks": tasks, "agents": agents}), encoding="utf-8")
    advice = call("lab", "advise", file, "x", "--json").json
    assert advice["recommended"] == topology
    done = call("run", file, "--topology", "auto", "--run-id", "chosen", "--json")
    assert done.code == 0
    assert done.err.startswith(f"{topology}: the best balanced score")
    decision = call("runs", "show", "chosen", "--json").json["bundle"]["decision"]
    assert {name: decision[name] for name in ("work", "shapes", "confidence")} == {
        name: advice[name] for name in ("work", "shapes", "confidence")
    }
    again = call("run", file, "--topology", "lead", "--run-id", "chosen")
    assert "lead_subagent" not in again.err


def test_a_manifest_of_a_dag_team_gets_another_shape(call: Call) -> None:  # Z-09
    folder = EXAMPLES / "dag"
    done = call("run", folder, "--file", folder / "task.txt", "--topology", "star", "--model", f"scripted:{ANYTHING}")
    assert done.code == 0
    assert done.err.startswith("star_team: the only shape that was considered")
    assert "fair  star_team of forecaster" in done.err


ANYTHING = EXAMPLES.parent / "tests" / "cli" / "anything.yaml"


def test_a_team_that_says_how_it_shares_is_evaluated_and_runs_that_way(call: Call, tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text(
        f"""\
agents: {{a: {{model: scripted:{ANYTHING.as_posix()}}}, b: {{model: scripted:{ANYTHING.as_posix()}}}}}
teams:
  t: {{strategy: dag, share: transcript, members: [a, b], dag: {{steps: [{{id: x, agent: a, task: Do x.}}]}}}}
""",
        encoding="utf-8",
    )
    done = call("run", tmp_path / "team.yaml", "Go.", "--topology", "auto", "--run-id", "told", "--json")
    assert (done.code, done.json["status"]) == (0, "completed")
    assert call("runs", "show", "told", "--json").json["bundle"]["evaluation"]["settings"]["protocol"] == "transcript"
    assert "sharing the transcript" in call("runs", "show", "told").out


def test_a_budget_may_be_named_and_tokens_of_the_run_are_what_is_allotted(call: Call) -> None:
    arguments = (
        "run",
        TOPOLOGIES,
        "--topology",
        "auto",
        "--budget-level",
        "high",
        "--max-tokens",
        50_000,
        "--run-id",
        "high",
        "--json",
    )
    assert "with a high budget" in call(*arguments).err
    bundle = call("runs", "show", "high", "--json").json["bundle"]
    assert bundle["planner_settings"]["run_budget"] == 50_000


def test_a_task_is_needed_only_where_a_step_has_none(call: Call, tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text(
        f"tasks: [{{id: x}}]\nagents: {{a: {{model: scripted:{ANYTHING.as_posix()}}}}}\n", encoding="utf-8"
    )
    assert "There is no task" in call("run", tmp_path / "tasks.yaml", "--topology", "auto").err
    done = call("run", tmp_path / "tasks.yaml", "Go on.", "--topology", "auto")
    assert (done.code, done.out) == (0, "Anything.\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--budget-level", "low"], "--budget-level is for the choice of a topology; add  --topology auto"),
        (["--profile", "mine"], "--profile is for the choice of a topology; add  --topology auto"),
        (["--topology", "auto", "--profile", "nobodys"], "'nobodys'"),
        (["--topology", "auto", "--budget-level", "huge"], "'huge'"),
        (["--topology", "ring"], "'ring'"),
    ],
)
def test_impossible_options_are_reported(call: Call, arguments: list[str], told: str) -> None:
    done = call("run", TOPOLOGIES, "Go.", *arguments)
    assert done.code == 2
    assert told in done.err


def test_a_team_without_a_plan_is_refused_with_what_would_do(call: Call) -> None:
    done = call("run", EXAMPLES / "sequential", "Go.", "--topology", "auto")
    assert done.code == 2
    assert "its steps are not known beforehand: give a file of tasks, or a team with `strategy: dag`" in done.err


def test_the_same_plan_in_four_shapes_side_by_side(call: Call) -> None:  # Z-12, Z-13
    """As many messages as the topology model says for 1, 3 and 3 workers in 6, 2 and 2 rounds."""
    shapes = ("single", "lead", "star", "mesh")
    for shape in shapes:
        done = call(
            "run", TOPOLOGIES, "--topology", shape, "--run-id", shape, "--file", TOPOLOGIES / "task.txt", "--json"
        )
        assert (done.code, done.json["status"]) == (0, "completed")
    figures = {one["run_id"]: one for one in call("runs", "kpi", *shapes, "--json").json}
    assert [figures[shape]["messages"] for shape in shapes] == [0, 2 * 1 * 6, 3 * 3 * 2, 2 * 3 * 2 + 3 * 2 * 2]
    assert {figures[shape]["steps"] for shape in shapes} == {6}
    assert figures["single"]["coordination_tokens"] == 0
    assert figures["star"]["coordination_tokens"] < figures["mesh"]["coordination_tokens"]
    assert call("runs", "kpi", *shapes).out.splitlines()[0].split() == list(shapes)
