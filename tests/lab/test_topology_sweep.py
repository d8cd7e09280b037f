"""Sweeps: the cells are those of evaluate, whatever is swept."""

from __future__ import annotations

import csv
import io
from itertools import groupby, islice, product
from pathlib import Path
from statistics import fmean
from typing import Any, cast, get_args

import pytest
from hypothesis import given, settings, strategies as st

from teamwright.errors import UsageError
from teamwright.lab import evaluate, sweep
from teamwright.lab.topology_model import (
    TOPOLOGIES,
    BudgetLevel,
    Degradation,
    Preference,
    Protocol,
    Topology,
    TopologyProfiles,
    Workload,
)
from teamwright.lab.topology_options import AXES
from teamwright.lab.topology_sweep import COLUMNS, COMMON, Sweep, SweepOptions


def some(values: object, most: int = 2) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(get_args(values)), min_size=1, max_size=most, unique=True)


def sweeps() -> st.SearchStrategy[SweepOptions]:
    return cast(
        "st.SearchStrategy[SweepOptions]",
        st.fixed_dictionaries(
            {
                "budgets": some(BudgetLevel),
                "workloads": some(Workload),
                "protocols": some(Protocol),
                "degradations": some(Degradation),
                "topologies": some(Topology, 4),
                "tasks": st.lists(st.integers(1, 10_000_000), min_size=1, max_size=2),
                "avg_task_tokens": st.lists(st.integers(1, 100_000_000), min_size=1, max_size=2),
                "coordination_rounds": st.lists(st.integers(0, 1_000_000), min_size=1, max_size=2),
                "recommend": st.sampled_from(get_args(Preference)),
                "max_coordination_ratio": st.floats(0, 1, exclude_min=True, exclude_max=True),
                "min_pass_rate": st.floats(0, 1, exclude_min=True, exclude_max=True),
                "max_p95_latency": st.floats(0, 1e6, exclude_min=True),
            }
        ),
    )


def lines(found: Sweep) -> list[str]:
    return "".join(found.csv()).splitlines()


def test_a_ratio_near_a_midpoint_is_rounded_by_its_exact_value() -> None:  # Z-14
    """1328 / 12800 is 0.10375 and as a float a little less, so that it goes down to 0.1037."""
    found = sweep(
        workloads="debugging", degradations="auto", avg_task_tokens=500, coordination_rounds=3, topologies="mesh"
    )
    assert (found.column("coordination_tokens"), found.column("total_tokens")) == ([1328], [12800])
    assert found.column("coordination_ratio") == [0.1037]


def test_the_numbers_of_a_calibration_are_used() -> None:
    fitted = TOPOLOGIES["star_team"]._replace(messages=0.73, summary=1.31, seconds_per_task=7.7)
    own: TopologyProfiles = {**TOPOLOGIES, "star_team": fitted}
    options: SweepOptions = {"tasks": "1:40", "coordination_rounds": "0:9", "degradations": "all"}
    assert lines(sweep(profiles=own, **options)) != lines(sweep(**options))
    for row in sweep(profiles=own, tasks="1,40", topologies="all").rows():
        report = evaluate(profiles=own, tasks=cast("int", row["tasks"]))
        assert row["total_tokens"] == report.section.row(cast("Topology", row["topology"])).total_tokens


@settings(max_examples=40)
@given(sweeps())
def test_cells_are_those_of_evaluate(drawn: SweepOptions) -> None:  # Z-14
    common = {name: value for name, value in drawn.items() if name in COMMON}
    for place, rows in groupby(sweep(**drawn).rows(), key=lambda row: {name: row[name] for name in AXES[:-1]}):
        report = evaluate(topologies=cast("Any", drawn.get("topologies")), **cast("Any", place | common))
        scores = {one.topology: one.score for one in report.recommendation.scores}
        for row in rows:
            topology = cast("Topology", row["topology"])
            expected = report.section.row(topology).to_json()
            gates, actions = cast("dict[str, bool]", expected.pop("gates")), expected.pop("degradation_actions")
            assert row["degradation_actions"] == ";".join(cast("list[str]", actions))
            assert {name: row[name] for name in (*expected, *gates)} == {**expected, **gates}
            assert row["score"] == scores.get(topology)
            assert row["recommended"] == (topology == report.recommendation.recommended_topology)


def test_a_sweep_has_every_combination_once() -> None:  # Z-14
    found = sweep(budgets="all", protocols="all", degradations="auto", tasks="8,24")
    places = {(row["budget"], row["protocol"], row["tasks"], row["topology"]) for row in found.rows()}
    assert len(places) == len(found) == 3 * 2 * 2 * 4


def test_every_combination_has_one_recommendation() -> None:
    found = sweep(tasks="1:20", coordination_rounds="0:20:4", min_pass_rate=0.9)
    chosen = cast("list[bool]", found.column("recommended"))
    assert [sum(chosen[at : at + 4]) for at in range(0, len(chosen), 4)] == [1] * (len(chosen) // 4)


def test_comma_separated_values_can_be_read_back(tmp_path: Path) -> None:
    found = sweep(tasks="8,16", degradations="all")
    with pytest.raises(UsageError, match=r"cells\.csv' can't be written: No such file .*; name another file"):
        found.write_csv(tmp_path / "nowhere" / "cells.csv")
    found.write_csv(tmp_path / "cells.csv")
    text = (tmp_path / "cells.csv").read_text()
    read = list(csv.DictReader(io.StringIO(text)))
    assert tuple(read[0]) == COLUMNS
    assert len(read) == len(found)
    assert [int(row["total_tokens"]) for row in read] == found.column("total_tokens")
    assert [float(row["coordination_ratio"]) for row in read] == found.column("coordination_ratio")
    assert {row["recommended"] for row in read} == {"true", "false"}
    assert any(row["score"] == "" for row in read)


def test_topologies_change_fastest() -> None:
    found = sweep(tasks="8,16", topologies="star,lead")
    assert [(row["tasks"], row["topology"]) for row in found.rows()] == [
        (8, "star_team"), (8, "lead_subagent"), (16, "star_team"), (16, "lead_subagent"),
    ]  # fmt: skip


def test_the_fields_of_a_sweep() -> None:
    found = cast("dict[str, Any]", sweep(budgets="low,high", degradations="auto").to_json())
    assert list(found) == ["inputs", "cells", "results"]
    assert found["inputs"]["budgets"] == ["low", "high"]
    assert found["inputs"]["recommend"] == "balanced"
    assert found["cells"] == len(found["results"]) == 8
    assert tuple(found["results"][0]) == COLUMNS
    assert found["results"][0]["degradation_actions"] == []
    assert found["results"][7]["degradation_actions"][0] == "reduce_participants:5->4"


@pytest.mark.parametrize("column", ["total_tokens", "gate_pass", "score"])
@pytest.mark.parametrize("over", [(), ("tasks",), ("topology", "budget"), ("budget", "tasks", "topology")])
def test_a_mean_is_taken_over_the_cells_at_each_value(column: str, over: tuple[str, ...]) -> None:
    found = sweep(budgets="all", tasks="8:64:8", coordination_rounds="0:9")
    expected: list[float | None] = []
    for place in product(*(found.axes.values(name) for name in over)):
        here = [row[column] for row in found.rows() if tuple(row[name] for name in over) == place]
        values = [float(value) for value in here if value is not None]
        expected.append(fmean(values) if values else None)
    assert found.cells.means(column, over) == [None if one is None else pytest.approx(one) for one in expected]


def test_a_mean_of_nothing_is_nothing() -> None:
    assert sweep(tasks="24").cells.means("score", ("topology",))[0] is None


def test_a_column_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="There is no column 'price' in a sweep; known are budget"):
        sweep().column("price")


def test_rows_can_be_taken_in_pieces() -> None:
    found = sweep(tasks="1:50")
    assert list(found.rows(10, 13)) == list(islice(found.rows(), 10, 13))


def test_a_sweep_shows_what_its_dimensions_do() -> None:
    found = sweep(budgets="all", coordination_rounds="0:30")
    text = str(found)
    assert text.startswith("372 cells: 3 budget × 31 coordination_rounds × 4 topology (workload mixed")
    assert "…" in text
    assert "Of 93 combinations, recommended: lead_subagent in" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "4 cells" in str(sweep())
