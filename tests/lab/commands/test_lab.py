"""`teamwright lab` for topologies: options, JSON, tables, gates and exit codes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from teamwright.lab import compare, evaluate, sweep
from tests.kit.terminal import Call


def test_a_report_as_data_is_that_of_the_function(call: Call) -> None:  # Z-14
    done = call("lab", "evaluate", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json == evaluate().to_json()


def test_every_option_arrives(call: Call) -> None:  # Z-14
    done = call(
        "lab", "evaluate", "--budget-level", "high", "--tasks", 9, "--avg-task-tokens", 700,
        "--coordination-rounds", 6, "--topology", "star, mesh_team", "--workload", "debugging", "--protocol",
        "transcript", "--degradation", "aggressive", "--recommend", "cost", "--gate", "coordination_ratio<=0.5",
        "--gate", "pass_rate>=0.7", "--gate", "p95_latency_s <= 60", "--json",
    )  # fmt: skip
    expected = evaluate(
        budget="high",
        tasks=9,
        avg_task_tokens=700,
        coordination_rounds=6,
        topologies=["star", "mesh"],
        workload="debugging",
        protocol="transcript",
        degradation="aggressive",
        recommend="cost",
        max_coordination_ratio=0.5,
        min_pass_rate=0.7,
        max_p95_latency=60,
    ).to_json()
    assert done.json == expected
    assert done.json["inputs"] == {
        "budget": "high", "tasks": 9, "avg_task_tokens": 700, "coordination_rounds": 6,
        "topologies": ["star_team", "mesh_team"], "workload": "debugging", "protocol": "transcript",
        "degradation": "aggressive", "recommend": "cost", "max_coordination_ratio": 0.5, "min_pass_rate": 0.7,
        "max_p95_latency": 60.0,
    }  # fmt: skip


def test_every_budget_level_is_evaluated_on_request(call: Call) -> None:
    assert call("lab", "evaluate", "--budget-level", "all", "--json").json == evaluate(all_budgets=True).to_json()


def test_without_json_there_is_a_table_and_the_reason(call: Call) -> None:
    done = call("lab", "evaluate")
    assert done.out == f"{evaluate()}\n"
    assert max(map(len, done.out.splitlines())) <= 80


def test_the_report_is_written_before_gates_are_enforced(call: Call, tmp_path: Path) -> None:  # Z-14
    file = tmp_path / "report.json"
    done = call("lab", "evaluate", "--enforce-gates", "--json", "--out", file)
    assert done.code == 1
    assert file.read_text() == call("lab", "evaluate", "--json").out
    assert done.err.splitlines() == [
        "gate failed: medium budget, single: estimated_pass_rate 0.79 is below 0.8",
        "gate failed: medium budget, mesh_team: coordination_ratio 0.2183 is above 0.2",
        "gate failed: medium budget, mesh_team: total_tokens 37791 is above 34080",
    ]


def test_gates_that_are_kept_exit_0(call: Call) -> None:  # Z-15
    done = call("lab", "evaluate", "--topology", "star_team", "--enforce-gates")
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("gate", "at", "beyond"),
    [
        ("coordination_ratio<=", 0.1511, 0.1510),
        ("pass_rate>=", 0.89, 0.8901),
        ("p95_latency_s<=", 39.2, 39.19),
    ],
)
def test_a_gate_is_kept_at_its_bound_and_broken_beyond(call: Call, gate: str, at: float, beyond: float) -> None:
    assert call("lab", "evaluate", "--topology", "star", "--enforce-gates", "--gate", f"{gate}{at}").code == 0
    assert call("lab", "evaluate", "--topology", "star", "--enforce-gates", "--gate", f"{gate}{beyond}").code == 1


def test_all_budgets_are_held_to_the_gates_each_once(call: Call) -> None:  # Z-14
    done = call("lab", "evaluate", "--budget-level", "all", "--enforce-gates", "--topology", "single")
    assert done.code == 1
    assert [line.split(",")[0] for line in done.err.splitlines()] == [
        "gate failed: low budget",
        "gate failed: medium budget",
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["evaluate", "--tasks", 0], "tasks is '0', expected a whole number from 1 to 10 000 000"),
        (["evaluate", "--tasks", "ten"], "tasks is 'ten', expected a whole number from 1 to 10 000 000"),
        (["evaluate", "--avg-task-tokens", 0], "expected a whole number from 1 to 100 000 000"),
        (["evaluate", "--coordination-rounds", -1], "expected a whole number from 0 to 1 000 000"),
        (["evaluate", "--gate", "pass_rate>=1.5"], "min_pass_rate is '1.5', expected a number above 0 and below 1"),
        (["evaluate", "--gate", "coordination_ratio<=1"], "expected a number above 0 and below 1"),
        (["evaluate", "--gate", "p95_latency_s<=0"], "max_p95_latency is '0', expected a number above 0"),
        (["evaluate", "--gate", "pass_rate>=nan"], "'pass_rate>=nan' is no gate"),
        (
            ["evaluate", "--tasks", "4,8", "--gate", "pass_rate<=0.5"],
            "it has coordination_ratio<=X, pass_rate>=X, p95_latency_s<=X",
        ),
        (["evaluate", "--budget-level", "huge"], "budget is 'huge', expected low, medium or high"),
        (["evaluate", "--workload", "reserch"], "did you mean 'research'?"),
        (["evaluate", "--protocol", "xml"], "protocol is 'xml', expected a2a_lite or transcript"),
        (["evaluate", "--degradation", "no"], "degradation is 'no', expected none, auto or aggressive"),
        (["evaluate", "--recommend", "speed"], "recommend is 'speed', expected balanced, cost or quality"),
        (["evaluate", "--topology", "star,ring"], "topologies is 'ring', expected single, lead_subagent"),
        (["evaluate", "--topology", "star,my-ring"], "topologies is 'my-ring', expected single, lead_subagent"),
        (["evaluate", "--out", "nowhere/report.json"], "there is no folder 'nowhere'"),
        (["evaluate", "--tasks", "1:x"], "or a range as in 8:64:8"),
        (["evaluate", "--budget-level", "all,low"], "budget is 'all', expected low, medium or high"),
        (["evaluate", "--tasks", "4,8", "--enforce-gates"], "--enforce-gates is for one workload"),
        (["evaluate", "--tasks", "1:30000", "--json"], "--json allows at most 100000 cells, and this sweep has 120000"),
    ],
)
def test_bad_arguments_exit_2_with_what_was_expected(call: Call, arguments: list[object], expected: str) -> None:
    done = call("lab", *arguments)
    assert done.code == 2
    assert expected in done.err


def test_a_sweep_that_is_refused_as_json_is_not_computed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("teamwright.lab.topology_sweep.compute_cells")
    assert call("lab", "evaluate", "--json", "--tasks", "1:30000").code == 2


def test_a_mistake_is_reported_as_data_too(call: Call) -> None:
    done = call("lab", "evaluate", "--tasks", 0, "--json")
    assert (done.code, done.json["error"]["kind"]) == (2, "UsageError")


def test_protocols_are_compared(call: Call) -> None:  # Z-14
    assert (
        call("lab", "evaluate", "--protocol", "all", "--budget-level", "all", "--tasks", 9, "--json").json
        == compare(all_budgets=True, tasks=9).to_json()
    )
    assert call("lab", "evaluate", "--protocol", "all").out == f"{compare()}\n"


def test_a_comparison_holds_both_protocols_to_the_gates(call: Call) -> None:
    done = call("lab", "evaluate", "--protocol", "all", "--topology", "star", "--enforce-gates")
    assert done.code == 1
    assert all(line.startswith("gate failed: transcript, medium budget, star_team:") for line in done.err.splitlines())


def test_a_sweep_gives_every_cell_as_csv_or_data(call: Call, tmp_path: Path) -> None:  # Z-14
    arguments = ["lab", "evaluate", "--tasks", "8:64:8", "--coordination-rounds", "0,4", "--budget-level", "all"]
    found = sweep(tasks="8:64:8", coordination_rounds="0,4", budgets="all")
    done = call(*arguments, "--out", tmp_path / "cells.csv")
    assert (done.code, done.out, done.err) == (0, "", "")
    written = (tmp_path / "cells.csv").read_text()
    assert len(list(csv.DictReader(io.StringIO(written)))) == len(found) == 192
    assert written == "".join(found.csv())
    assert call(*arguments, "--json").json == found.to_json()
    assert call(*arguments).out == f"{found}\n"
