"""Sweeps: both ways of computing give the same cells to the last digit, and the cells are those of evaluate."""

from __future__ import annotations

import csv
import io
import random
import sys
from itertools import islice
from pathlib import Path
from typing import Any, cast, get_args
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.errors import MissingExtra, UsageError
from teamwright.lab import Sweep, evaluate, sweep
from teamwright.lab.parameter_sweep.cells import COLUMNS
from teamwright.lab.parameter_sweep.sweep import SweepOptions
from teamwright.lab.topology.profiles import (
    TOPOLOGIES,
    BudgetLevel,
    Degradation,
    Preference,
    Protocol,
    Topology,
    TopologyProfiles,
    Workload,
)
from tests.profiles import sampled

BIG: SweepOptions = {
    "budgets": "all",
    "workloads": "all",
    "protocols": "all",
    "degradations": "all",
    "tasks": "1,7,24,1000,9999999",
    "avg_task_tokens": "1,199,1400,4321,99999999",
    "coordination_rounds": "0,1,4,13,999999",
}


def some(values: object, most: int = 4) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(get_args(values)), min_size=1, max_size=most, unique=True)


def sweeps() -> st.SearchStrategy[SweepOptions]:
    return cast(
        "st.SearchStrategy[SweepOptions]",
        st.fixed_dictionaries(
            {
                "budgets": some(BudgetLevel),
                "workloads": some(Workload, 2),
                "protocols": some(Protocol),
                "degradations": some(Degradation),
                "topologies": some(Topology),
                "tasks": st.lists(st.integers(1, 10_000_000), min_size=1, max_size=3),
                "avg_task_tokens": st.lists(st.integers(1, 100_000_000), min_size=1, max_size=3),
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


@settings(max_examples=60)
@given(sweeps())
def test_both_ways_give_the_same_digits(drawn: SweepOptions) -> None:  # Z-14
    assert lines(sweep(vectorised=True, **drawn)) == lines(sweep(vectorised=False, **drawn))


def test_both_ways_give_the_same_digits_in_a_large_sample() -> None:  # Z-14
    chance = random.Random(5)
    drawn = {name: [chance.randint(1, 10**power) for _ in range(4)] for name, power in (("tasks", 4), ("tokens", 5))}
    odd = BIG | {"tasks": drawn["tasks"], "avg_task_tokens": drawn["tokens"], "recommend": "cost"}
    for options in (odd, BIG)[: sampled(1, 2)]:
        vector, listed = sweep(vectorised=True, **options), sweep(vectorised=False, **options)
        assert len(vector) == len(listed) >= 20_000
        assert lines(vector) == lines(listed)


def test_a_cell_that_numpys_rounding_gets_wrong() -> None:  # Z-14
    """1328 / 12800 is 0.10375 and as a float a little less, so that it goes down to 0.1037."""
    found = sweep(
        workloads="debugging",
        degradations="auto",
        avg_task_tokens=500,
        coordination_rounds=3,
        topologies="mesh",
        vectorised=True,
    )
    assert (found.column("coordination_tokens"), found.column("total_tokens")) == ([1328], [12800])
    assert found.column("coordination_ratio") == [0.1037]
    assert np.round(1328 / 12800, 4) == 0.1038


def test_both_ways_take_the_numbers_of_a_calibration() -> None:
    fitted = TOPOLOGIES["star_team"]._replace(messages=0.73, summary=1.31, seconds_per_task=7.7)
    own: TopologyProfiles = {**TOPOLOGIES, "star_team": fitted}
    options: SweepOptions = {"tasks": "1:40", "coordination_rounds": "0:9", "degradations": "all"}
    vector = lines(sweep(vectorised=True, profiles=own, **options))
    assert vector == lines(sweep(vectorised=False, profiles=own, **options))
    assert vector != lines(sweep(vectorised=True, **options))


@pytest.mark.parametrize("vectorised", [True, False])
def test_cells_are_those_of_evaluate(vectorised: bool) -> None:  # Z-14
    found = sweep(budgets="all", protocols="all", degradations="auto", tasks="8,24", vectorised=vectorised)
    rows = list(found.rows())
    assert len(rows) == len(found) == 3 * 2 * 2 * 4
    for row in rows:
        report = evaluate(
            budget=cast("BudgetLevel", row["budget"]),
            protocol=cast("Protocol", row["protocol"]),
            degradation="auto",
            tasks=cast("int", row["tasks"]),
        )
        expected = report.section.row(cast("Topology", row["topology"])).to_json()
        gates, actions = cast("dict[str, bool]", expected.pop("gates")), expected.pop("degradation_actions")
        assert row["degradation_actions"] == ";".join(cast("list[str]", actions))
        assert {name: row[name] for name in (*expected, *gates)} == {**expected, **gates}
        scores = {one.topology: one.score for one in report.recommendation.scores}
        assert row["score"] == scores.get(cast("Topology", row["topology"]))
        assert row["recommended"] == (row["topology"] == report.recommendation.recommended_topology)


@pytest.mark.parametrize("vectorised", [True, False])
def test_every_combination_has_one_recommendation(vectorised: bool) -> None:
    found = sweep(tasks="1:20", coordination_rounds="0:20:4", min_pass_rate=0.9, vectorised=vectorised)
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
def test_means_are_the_same_either_way(column: str, over: tuple[str, ...]) -> None:
    options: SweepOptions = {"budgets": "all", "tasks": "8:64:8", "coordination_rounds": "0:9"}
    vector = sweep(vectorised=True, **options).cells.means(column, over)
    listed = sweep(vectorised=False, **options).cells.means(column, over)
    assert [value is None for value in vector] == [value is None for value in listed]
    assert [v for v in vector if v is not None] == pytest.approx([v for v in listed if v is not None])


def test_a_mean_of_nothing_is_nothing() -> None:
    for vectorised in (True, False):
        found = sweep(tasks="24", vectorised=vectorised)
        assert found.cells.means("score", ("topology",))[0] is None


def test_without_numpy_cells_are_computed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sweep().vectorised
    monkeypatch.setattr("teamwright.lab.parameter_sweep.sweep.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "teamwright.lab.parameter_sweep.numpy_cells", None)
    assert not sweep().vectorised
    with pytest.raises(MissingExtra, match=r"\[lab\]"):
        sweep(vectorised=True)


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
    assert str(sweep(budgets="all", coordination_rounds="0:30", vectorised=False)) == text
    assert found._repr_html_().count("<tr>") == 1 + (1 + 3) + (1 + 13) + (1 + 4)
    assert max(map(len, text.splitlines())) <= 80
    assert "4 cells" in str(sweep())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tasks": "1:400"},
        {"budgets": "all", "tasks": "8:64:8"},
        {"tasks": "8:64:8", "coordination_rounds": "0:9", "topologies": "star"},
        {"budgets": "all", "workloads": "all", "tasks": "8:64:8", "coordination_rounds": "0:9"},
    ],
)
@pytest.mark.parametrize("value", [None, "score", "gate_pass"])
def test_every_sweep_can_be_drawn(options: SweepOptions, value: str | None) -> None:
    ElementTree.fromstring(sweep(**options).svg(value))
