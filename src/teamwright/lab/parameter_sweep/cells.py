"""The cells of a sweep and their columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product, repeat
from operator import attrgetter
from typing import cast

from teamwright.lab.evaluation.report import Row, row_of
from teamwright.lab.parameter_sweep.axes import AXES, Axes
from teamwright.lab.topology.model import EvaluationSettings, evaluate_topology, recommend
from teamwright.lab.topology.profiles import (
    BudgetLevel,
    Degradation,
    Protocol,
    Topology,
    TopologyProfiles,
    Workload,
)

Cell = str | int | float | bool | None

FIGURES = (
    "participants", "model_tier", "tasks_per_worker", "degradation_applied", "degradation_actions",
    "execution_tokens", "coordination_tokens", "cache_savings_tokens", "total_tokens", "coordination_ratio",
    "estimated_pass_rate", "estimated_defect_escape", "estimated_p95_latency_s", "estimated_throughput_tpd",
    "budget_limit_tokens", "budget_headroom_tokens", "coordination_ratio_ok", "quality_ok", "latency_ok", "budget_ok",
    "gate_pass", "score", "recommended",
)  # fmt: skip
"""The figures of a cell. `score` is empty outside the pool that the recommendation was made from."""
_ACTIONS = FIGURES.index("degradation_actions")
_figures = attrgetter(*(name if name in Row.__struct_fields__ else f"gates.{name}" for name in FIGURES[:-2]))
"""Reads the figures of a row; each gate has a column."""
COLUMNS = (*AXES, *FIGURES)
NUMBERS = frozenset(FIGURES) - {"model_tier", "degradation_actions"}
"""The columns with a mean; for a gate, it is the share of the cells that pass it."""


@dataclass(frozen=True, slots=True)
class Cells:
    """Cells as columns of plain values, in the order of their axes."""

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


def compute_cells(axes: Axes, settings: EvaluationSettings, profiles: TopologyProfiles) -> Cells:
    """Compute every cell, with the gates and the preference of the settings."""
    combinations = product(*(axes.values(name) for name in AXES[:-1]))
    rows = [row for one in combinations for row in _rows(one, axes.topology, settings, profiles)]
    return Cells(axes, dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)))


def _rows(
    combination: tuple[str | int, ...],
    topologies: Sequence[Topology],
    settings: EvaluationSettings,
    profiles: TopologyProfiles,
) -> Iterator[tuple[Cell, ...]]:
    budget, workload, protocol, degradation, tasks, tokens, rounds = combination
    here = settings.model_copy(
        update={
            "budget": cast("BudgetLevel", budget),
            "workload": cast("Workload", workload),
            "protocol": cast("Protocol", protocol),
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
        figures = list(_figures(row_of(one, here.tasks)))
        figures[_ACTIONS] = ";".join(one.actions)
        yield (*combination, one.topology, *figures, scores.get(one.topology), one.topology == choice.topology)
