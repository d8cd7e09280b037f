"""The cells of a sweep and their columns, computed one by one without an extra.

`teamwright.lab.parameter_sweep.numpy_cells` computes all cells at once. Both give the same digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product, repeat
from typing import Protocol, cast

from teamwright.lab.evaluation.report import Row, row_of
from teamwright.lab.parameter_sweep.axes import AXES, Axes
from teamwright.lab.topology.model import EvaluationSettings, evaluate_topology, recommend
from teamwright.lab.topology.profiles import BudgetLevel, Degradation, Topology, TopologyProfiles, Workload
from teamwright.lab.topology.profiles import Protocol as Sharing

Cell = str | int | float | bool | None

FIGURES = (
    "participants", "model_tier", "tasks_per_worker", "degradation_applied", "degradation_actions",
    "execution_tokens", "coordination_tokens", "cache_savings_tokens", "total_tokens", "coordination_ratio",
    "estimated_pass_rate", "estimated_defect_escape", "estimated_p95_latency_s", "estimated_throughput_tpd",
    "budget_limit_tokens", "budget_headroom_tokens", "coordination_ratio_ok", "quality_ok", "latency_ok", "budget_ok",
    "gate_pass", "score", "recommended",
)  # fmt: skip
"""The figures of a cell. `score` is empty outside the pool that the recommendation was made from."""
COLUMNS = (*AXES, *FIGURES)
NUMBERS = frozenset(FIGURES) - {"model_tier", "degradation_actions"}
"""The columns with a mean; for a gate, it is the share of the cells that pass it."""


class Cells(Protocol):
    """Cells in the order of their axes."""

    @property
    def axes(self) -> Axes:
        """The dimensions."""
        ...

    def column_slice(self, name: str, start: int, stop: int) -> list[Cell]:
        """The values of a column from `start` to `stop`."""
        ...

    def means(self, name: str, over: Sequence[str]) -> list[float | None]:
        """The mean of a column for each combination of the values of some dimensions, in their order."""
        ...


@dataclass(frozen=True, slots=True)
class ListedCells:
    """Cells as columns of plain values."""

    axes: Axes
    columns: Mapping[str, Sequence[Cell]]

    def column_slice(self, name: str, start: int, stop: int) -> list[Cell]:
        """The values of a column from `start` to `stop`."""
        return list(self.columns[name][start:stop])

    def means(self, name: str, over: Sequence[str]) -> list[float | None]:
        """The mean of a column for each combination of the values of some dimensions, in their order."""
        keys = zip(*(self.columns[axis] for axis in over), strict=True) if over else repeat((), self.axes.cells)
        found: dict[tuple[Cell, ...], list[float]] = {key: [] for key in product(*(self.axes.values(a) for a in over))}
        for key, value in zip(keys, self.columns[name], strict=True):
            if value is not None:
                found[key].append(float(value))
        return [math.fsum(values) / len(values) if values else None for values in found.values()]


def listed_cells(axes: Axes, settings: EvaluationSettings, profiles: TopologyProfiles) -> ListedCells:
    """Compute every cell, one by one, with the gates and the preference of the settings."""
    columns: dict[str, list[Cell]] = {name: [] for name in COLUMNS}
    combined = product(*(axes.values(name) for name in AXES))
    for combination, cells in groupby(combined, key=lambda cell: cell[:-1]):
        topologies = cast("list[Topology]", [cell[-1] for cell in cells])
        for row in _rows(combination, topologies, settings, profiles):
            for column, value in zip(columns.values(), row, strict=True):
                column.append(value)
    return ListedCells(axes, columns)


def _rows(
    combination: tuple[str | int, ...],
    topologies: Sequence[Topology],
    settings: EvaluationSettings,
    profiles: TopologyProfiles,
) -> Iterator[Iterable[Cell]]:
    budget, workload, protocol, degradation, tasks, tokens, rounds = combination
    here = settings.model_copy(
        update={
            "budget": cast("BudgetLevel", budget),
            "workload": cast("Workload", workload),
            "protocol": cast("Sharing", protocol),
            "degradation": cast("Degradation", degradation),
            "tasks": tasks,
            "average_tokens": tokens,
            "rounds": rounds,
        }
    )
    evaluations = [evaluate_topology(topology, here, profiles) for topology in topologies]
    choice = recommend(evaluations, here.recommendation)
    scores = {one.topology: one.score for one in choice.scores}
    for one in evaluations:
        row = row_of(one, here.tasks)
        yield (*combination, *_figures(row), scores.get(row.topology), row.topology == choice.topology)


def _figures(row: Row) -> Iterator[Cell]:
    """The fields of a row as plain values: actions as one text, and each gate as a value."""
    yield row.topology
    for name in FIGURES[:-2]:
        if name == "degradation_actions":
            yield ";".join(row.degradation_actions)
        else:
            yield cast("Cell", getattr(row if hasattr(row, name) else row.gates, name))
