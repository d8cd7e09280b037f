"""A sweep: evaluates the model for every combination of several values, with a recommendation for each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product, repeat
from operator import attrgetter
from pathlib import Path
from typing import Unpack, cast

from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.lab.topology_model import (
    TOPOLOGIES,
    BudgetLevel,
    Degradation,
    EvaluationSettings,
    Preference,
    Protocol,
    Topology,
    TopologyProfiles,
    Workload,
    evaluate_topology,
    recommend,
)
from teamwright.lab.topology_options import (
    AXES,
    OPTIONS,
    Axes,
    Dimensions,
    Options,
    axes_from,
    inputs_of,
    settings_from,
)
from teamwright.lab.topology_report import Row, row_of

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


BLOCK = 50_000
"""The number of cells that are formatted at once, which bounds the memory for text."""


class SweepOptions(Dimensions, total=False):
    """The dimensions, and the options that apply to all cells."""

    recommend: Preference
    max_coordination_ratio: float
    min_pass_rate: float
    max_p95_latency: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """The cells of a sweep, in the order of their axes; topologies change fastest."""

    settings: EvaluationSettings
    cells: Cells

    @property
    def axes(self) -> Axes:
        return self.cells.axes

    def __len__(self) -> int:
        return self.axes.cells

    def column(self, name: str) -> list[Cell]:
        return self.cells.column_slice(check_column(name), 0, len(self))

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Cell]]:
        for block in self._blocks(COLUMNS, start, len(self) if stop is None else min(stop, len(self))):
            for values in zip(*block, strict=True):
                yield dict(zip(COLUMNS, values, strict=True))

    def csv(self) -> Iterator[str]:
        """The cells as comma-separated values with a header, in pieces of many lines."""
        yield ",".join(COLUMNS) + "\n"
        places = map(",".join, product(*([str(value) for value in self.axes.values(name)] for name in AXES)))
        written = [_Texts() for _ in FIGURES]
        for block in self._blocks(FIGURES, 0, len(self)):
            columns = [map(texts.__getitem__, values) for texts, values in zip(written, block, strict=True)]
            lines = zip(islice(places, len(block[0])), *columns, strict=True)
            yield "".join([",".join(line) + "\n" for line in lines])

    def write_csv(self, file: str | Path) -> None:
        """Write all cells to a file as comma-separated values."""
        try:
            with Path(file).open("w", encoding="utf-8", newline="") as out:
                out.writelines(self.csv())
        except OSError as error:
            raise UsageError(f"{str(file)!r} can't be written: {error.strerror}; name another file.") from error

    def to_json(self) -> dict[str, JsonValue]:
        """As data: `inputs`, `cells` and `results`, a row for each cell."""
        common = inputs_of(self.settings)
        inputs: dict[str, JsonValue] = {OPTIONS[name]: list(self.axes.values(name)) for name in AXES}
        inputs |= {name: common[name] for name in COMMON}
        return {"inputs": inputs, "cells": len(self), "results": [_row_json(row) for row in self.rows()]}

    def __str__(self) -> str:
        from teamwright.lab.topology_tables import sweep_text

        return sweep_text(self)

    def _blocks(self, names: Sequence[str], start: int, stop: int) -> Iterator[list[list[Cell]]]:
        for at in range(start, stop, BLOCK):
            yield [self.cells.column_slice(name, at, min(at + BLOCK, stop)) for name in names]


COMMON = tuple(name for name in SweepOptions.__annotations__ if name not in OPTIONS.values())
"""The options that apply to all cells."""


def sweep(*, profiles: TopologyProfiles = TOPOLOGIES, **options: Unpack[SweepOptions]) -> Sweep:
    """Evaluate every combination of the dimensions; those that are not named have their default value."""
    common = {name: value for name, value in options.items() if name in COMMON}
    settings = settings_from(cast("Options", common))
    return Sweep(settings, compute_cells(sweep_axes(options), settings, profiles))


def sweep_axes(options: SweepOptions) -> Axes:
    """Return the dimensions that the options of a sweep describe, without computing a cell."""
    return axes_from(cast("Dimensions", {name: value for name, value in options.items() if name not in COMMON}))


def check_column(name: str) -> str:
    """Return the name of a column, or reject an unknown one."""
    if name not in COLUMNS:
        raise UsageError(f"There is no column {name!r} in a sweep; known are {', '.join(COLUMNS)}.")
    return name


class _Texts(dict[Cell, str]):
    """Caches the text of each value of a column, because most columns have few distinct values."""

    def __missing__(self, value: Cell) -> str:
        match value:
            case None:
                text = ""
            case bool():
                text = "true" if value else "false"
            case _:
                text = str(value)
        self[value] = text
        return text


def _row_json(row: dict[str, Cell]) -> dict[str, JsonValue]:
    actions = cast("str", row["degradation_actions"])
    return {**row, "degradation_actions": list(actions.split(";") if actions else ())}
