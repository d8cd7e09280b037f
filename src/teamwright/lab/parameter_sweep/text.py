"""A sweep as a short text: the mean figures at each value of each dimension, and what is recommended there."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, cast

from teamwright.lab.drawing.table import Table
from teamwright.values.text.display import NOTHING, count_text, number_text

if TYPE_CHECKING:
    from teamwright.lab.parameter_sweep.sweep import Sweep
    from teamwright.lab.topology.profiles import Topology

WIDTH = 80
MOST_VALUES = 12
"""A dimension with more values is abbreviated."""


def sweep_text(sweep: Sweep) -> str:
    """A sweep for a terminal."""
    head, tail = (textwrap.fill(line, WIDTH) for line in (_head(sweep), _choices(sweep)))
    return f"{head}\n\n{summary_table(sweep).text()}\n\n{tail}"


def sweep_html(sweep: Sweep) -> str:
    """A sweep for a notebook."""
    return f"<p>{escape(_head(sweep))}</p>\n{summary_table(sweep).html()}\n<p>{escape(_choices(sweep))}</p>"


def summary_table(sweep: Sweep) -> Table:
    """A row for each value of the dimensions that vary."""
    heads = ("MEAN", "TOKENS", "TALK", "PASS", "P95", "GATES", "RECOMMENDED")
    rows = [row for name in sweep.axes.swept or ("topology",) for row in _rows(sweep, name)]
    return Table(heads, rows, left=(0, 6))


def _rows(sweep: Sweep, name: str) -> Iterator[tuple[str, ...]]:
    values = sweep.axes.values(name)
    columns = [
        sweep.cells.means(column, (name,))
        for column in (
            "total_tokens", "coordination_ratio", "estimated_pass_rate", "estimated_p95_latency_s", "gate_pass",
        )
    ]  # fmt: skip
    best = _recommended(sweep, name)
    shown = _shown(len(values))
    yield (name, *[""] * 6)
    for place, value in enumerate(values):
        if place in shown:
            cells = [cast("float", column[place]) for column in columns]
            yield (f"  {value}", *_figures(*cells), best[place])
        elif place - 1 in shown:
            yield ("  …", *[""] * 6)


def _figures(tokens: float, ratio: float, passes: float, time: float, gates: float) -> tuple[str, ...]:
    return number_text(round(tokens)), f"{ratio:.1%}", f"{passes:.1%}", f"{time:.1f} s", f"{gates:.0%}"


def _recommended(sweep: Sweep, name: str) -> list[str]:
    """The topology that is recommended most often at each value, with its share; for a topology, its own share."""
    topologies: tuple[Topology, ...] = sweep.axes.topology
    if name == "topology":
        return [f"in {share or 0:.0%}" for share in sweep.cells.means("recommended", (name,))]
    shares = sweep.cells.means("recommended", (name, "topology"))
    found: list[str] = []
    for at in range(0, len(shares), len(topologies)):
        here = [share or 0.0 for share in shares[at : at + len(topologies)]]
        most = max(here)
        found.append(f"{topologies[here.index(most)]} {most:.0%}" if most else NOTHING)
    return found


def _shown(count: int) -> set[int]:
    """The indexes of the values that are shown: all, or the first ones and the last."""
    return set(range(count)) if count <= MOST_VALUES else {*range(MOST_VALUES - 1), count - 1}


def _head(sweep: Sweep) -> str:
    axes = sweep.axes
    sizes = " × ".join(f"{len(axes.values(name))} {name}" for name in axes.swept)
    fixed = ", ".join(f"{name} {axes.values(name)[0]}" for name in axes.__dataclass_fields__ if name not in axes.swept)
    return count_text(len(sweep), "cell") + (f": {sizes}" if sizes else "") + (f" ({fixed})" if fixed else "")


def _choices(sweep: Sweep) -> str:
    axes = sweep.axes
    passing = sweep.cells.means("gate_pass", ())[0] or 0
    # Each combination of the other dimensions has one recommendation.
    shares = zip(axes.topology, sweep.cells.means("recommended", ("topology",)), strict=True)
    ranked = sorted(((share or 0.0, topology) for topology, share in shares), key=lambda one: -one[0])
    named = ", ".join(f"{topology} in {share:.1%}" for share, topology in ranked if share)
    combinations = count_text(len(sweep) // len(axes.topology), "combination")
    return f"{passing:.1%} of the cells pass their gates. Of {combinations}, recommended: {named}."
