"""A sweep: evaluates the model for every combination of several values, with a recommendation for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Unpack, cast

from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.lab.evaluation.options import Options, inputs_of, settings_from
from teamwright.lab.parameter_sweep.axes import AXES, OPTIONS, Axes, Dimensions, axes_from
from teamwright.lab.parameter_sweep.cells import COLUMNS, FIGURES, Cell, Cells, compute_cells
from teamwright.lab.topology.model import EvaluationSettings
from teamwright.lab.topology.profiles import TOPOLOGIES, Preference, TopologyProfiles

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
        """The dimensions and their values."""
        return self.cells.axes

    def __len__(self) -> int:
        return self.axes.cells

    def column(self, name: str) -> list[Cell]:
        """All values of one column."""
        return self.cells.column_slice(check_column(name), 0, len(self))

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[dict[str, Cell]]:
        """Cells as rows of named values."""
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

    def svg(self, value: str | None = None, x: str | None = None, y: str | None = None) -> str:
        """A heat map of the mean of a column over two dimensions, with a panel for each topology, as SVG."""
        from teamwright.lab.parameter_sweep.heatmap import heat_map

        return heat_map(self, value, x, y)

    def plot(self, file: str | Path, value: str | None = None, x: str | None = None, y: str | None = None) -> None:
        """Write the heat map to a file that ends in .svg or .png."""
        from teamwright.lab.drawing.svg import save

        save(self.svg(value, x, y), file)

    def __str__(self) -> str:
        from teamwright.lab.parameter_sweep.text import sweep_text

        return sweep_text(self)

    def _repr_html_(self) -> str:
        from teamwright.lab.parameter_sweep.text import sweep_html

        return sweep_html(self)

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
