"""Computes all cells of a sweep at once with NumPy, by applying the model's own formulas to arrays.

An array has length one in every dimension that it does not depend on, so that nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import product
from math import isnan
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from teamwright.lab.parameter_sweep.axes import AXES, Axes
from teamwright.lab.parameter_sweep.cells import Cell
from teamwright.lab.parameter_sweep.numpy_rounding import rounded
from teamwright.lab.topology.formulas import Arithmetic, Figures, TopologyInput, check_bounds, figures, score
from teamwright.lab.topology.model import EvaluationSettings, actions_of, fewer_participants, participants_of
from teamwright.lab.topology.profiles import (
    BUDGETS,
    DEGRADATIONS,
    PREFERENCES,
    PROTOCOLS,
    WORKLOADS,
    BudgetLevel,
    BudgetProfile,
    Degradation,
    DegradationProfile,
    ProtocolProfile,
    Topology,
    TopologyProfile,
    TopologyProfiles,
    WorkloadProfile,
)

Array = NDArray[Any]
P = TypeVar("P", BudgetProfile, DegradationProfile, ProtocolProfile, TopologyProfile, WorkloadProfile)
"""A profile, which holds numbers or, in `_stacked`, arrays of them."""


def _whole(values: Array) -> Array:
    return np.trunc(values).astype(np.int64)


def _nearest(values: Array) -> Array:
    return np.rint(values).astype(np.int64)


ARRAYS = Arithmetic(whole=_whole, nearest=_nearest, rounded=rounded, lesser=np.minimum, greater=np.maximum)


@dataclass(frozen=True, slots=True)
class GridCells:
    """Cells as arrays that broadcast to the shape of the axes."""

    axes: Axes
    columns: Mapping[str, Array]

    def column_slice(self, name: str, start: int, stop: int) -> list[Cell]:
        """The values of a column from `start` to `stop`."""
        column, stop = self.columns[name], min(stop, self.axes.cells)
        if column.size == self.axes.cells:
            found = column.reshape(-1)[start:stop]
        else:
            places = np.unravel_index(np.arange(start, stop), self.axes.shape)
            found = column[tuple(at * (length > 1) for at, length in zip(places, column.shape, strict=True))]
        return [None if isnan(value) else value for value in found.tolist()] if name == "score" else found.tolist()

    def means(self, name: str, over: Sequence[str]) -> list[float | None]:
        """The mean of a column for each combination of the values of some dimensions, in their order."""
        column = np.broadcast_to(self.columns[name].astype(np.float64), self.axes.shape)
        others = tuple(place for place, axis in enumerate(AXES) if axis not in over)
        counts = np.sum(~np.isnan(column), axis=others)
        sums = np.nansum(column, axis=others)
        kept = [axis for axis in AXES if axis in over]
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).transpose([kept.index(one) for one in over])
        return [None if np.isnan(mean) else mean for mean in means.ravel().tolist()]


def grid_cells(axes: Axes, settings: EvaluationSettings, profiles: TopologyProfiles) -> GridCells:
    """Compute every cell at once, with the gates and the preference of the settings."""
    found, participants, applied = _degraded(axes, settings, profiles)
    gates = check_bounds(found, settings.gates.bounds)
    passed = gates.coordination_ratio & gates.pass_rate & gates.p95_latency_s & gates.budget
    scores, recommended = _recommended(found, passed, settings)
    tiers = _along(axes, "degradation", [DEGRADATIONS[one].model_tier for one in axes.degradation])
    columns: dict[str, Array] = {name: _along(axes, name, axes.values(name), object) for name in AXES}
    columns |= {
        "participants": participants,
        "model_tier": np.where(applied, tiers, DEGRADATIONS["none"].model_tier).astype(object),
        "tasks_per_worker": rounded(_along(axes, "tasks", axes.tasks) / found.parallelism, 2),
        "degradation_applied": applied,
        "degradation_actions": np.where(applied, _actions(axes, profiles), ""),
        "execution_tokens": found.execution_tokens,
        "coordination_tokens": found.coordination_tokens,
        "cache_savings_tokens": found.cache_savings,
        "total_tokens": found.total_tokens,
        "coordination_ratio": found.coordination_ratio,
        "estimated_pass_rate": found.pass_rate,
        "estimated_defect_escape": found.defect_escape,
        "estimated_p95_latency_s": found.p95_latency_s,
        "estimated_throughput_tpd": found.throughput,
        "budget_limit_tokens": found.budget_limit,
        "budget_headroom_tokens": found.budget_headroom,
        "coordination_ratio_ok": gates.coordination_ratio,
        "quality_ok": gates.pass_rate,
        "latency_ok": gates.p95_latency_s,
        "budget_ok": gates.budget,
        "gate_pass": passed,
        "score": scores,
        "recommended": recommended,
    }
    return GridCells(axes, columns)


def _degraded(axes: Axes, settings: EvaluationSettings, profiles: TopologyProfiles) -> tuple[Figures, Array, Array]:
    """The figures, the participants, and where degradation applies: where a gate fails and the policy allows it."""
    topology = _stacked(axes, "topology", [profiles[one]._replace(participants=0) for one in axes.topology])
    work = _work(axes)
    full = _by_team(axes, lambda budget, _, team: participants_of(profiles[team], BUDGETS[budget]))
    found = figures(topology, full, work, DEGRADATIONS["none"], ARRAYS)
    gates = check_bounds(found, settings.gates.bounds)
    allowed = _along(axes, "degradation", [one != "none" for one in axes.degradation])
    teams = _along(axes, "topology", [one != "single" for one in axes.topology])
    applied = allowed & teams & ~(gates.coordination_ratio & gates.budget)
    if not applied.any():
        return found, full, applied
    cutback = _stacked(axes, "degradation", [DEGRADATIONS[one] for one in axes.degradation])
    fewer = _by_team(axes, lambda budget, policy, team: _participants(profiles[team], budget, policy)[1])
    eased = figures(topology, fewer, work, cutback, ARRAYS)
    names = [one.name for one in fields(Figures)]
    merged: dict[str, Array] = {name: np.where(applied, getattr(eased, name), getattr(found, name)) for name in names}
    return Figures(**merged), np.where(applied, fewer, full), applied


def _participants(profile: TopologyProfile, budget: BudgetLevel, policy: Degradation) -> tuple[int, int]:
    """The number of participants before and after degradation."""
    full = participants_of(profile, BUDGETS[budget])
    return full, fewer_participants(full, DEGRADATIONS[policy])


def _actions(axes: Axes, profiles: TopologyProfiles) -> Array:
    """What degradation does to each team, as one text."""
    return _by_team(
        axes,
        lambda budget, policy, team: ";".join(
            actions_of(*_participants(profiles[team], budget, policy), DEGRADATIONS[policy])
        ),
        object,
    )


def _work(axes: Axes) -> TopologyInput:
    return TopologyInput(
        tasks=_along(axes, "tasks", axes.tasks),
        average_tokens=_along(axes, "avg_task_tokens", axes.avg_task_tokens),
        rounds=_along(axes, "coordination_rounds", axes.coordination_rounds),
        budget=_stacked(axes, "budget", [BUDGETS[one] for one in axes.budget]),
        workload=_stacked(axes, "workload", [WORKLOADS[one] for one in axes.workload]),
        protocol=_stacked(axes, "protocol", [PROTOCOLS[one] for one in axes.protocol]),
    )


def _recommended(found: Figures, passed: Array, settings: EvaluationSettings) -> tuple[Array, Array]:
    """The scores within each pool, and whether each cell is the best of its pool; the first one wins ties."""
    pool = passed | ~passed.any(axis=-1, keepdims=True)
    scores = score(
        PREFERENCES[settings.recommendation],
        found.pass_rate,
        found.total_tokens,
        found.p95_latency_s,
        most_tokens=np.where(pool, found.total_tokens, 0).max(axis=-1, keepdims=True),
        slowest=np.where(pool, found.p95_latency_s, 0).max(axis=-1, keepdims=True),
        use=ARRAYS,
    )
    scores = np.where(pool, scores, np.nan)
    count: int = passed.shape[-1]
    best: Array = np.nanargmax(scores, axis=-1, keepdims=True)
    return scores, np.equal(best, np.arange(count))


def _along(axes: Axes, name: str, values: Sequence[object], kind: type | None = None) -> Array:
    """Values along one dimension."""
    shape = [1] * len(AXES)
    shape[AXES.index(name)] = len(axes.values(name))
    return np.array(values, dtype=kind).reshape(shape)


def _stacked(axes: Axes, name: str, profiles: Sequence[P]) -> P:
    """Combine profiles along a dimension into one profile whose numbers are arrays."""
    columns = zip(*cast("Sequence[tuple[object, ...]]", profiles), strict=True)
    profile: Any = type(profiles[0])
    return profile(*(_along(axes, name, column) for column in columns))


def _by_team(axes: Axes, of: Callable[[BudgetLevel, Degradation, Topology], object], kind: type | None = None) -> Array:
    """An array of values that depend only on the budget, the degradation policy and the topology."""
    values = [of(*team) for team in product(axes.budget, axes.degradation, axes.topology)]
    shape = [len(axes.values(name)) if name in {"budget", "degradation", "topology"} else 1 for name in AXES]
    return np.array(values, dtype=kind).reshape(shape)
