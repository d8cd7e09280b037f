"""Draws a sweep as heat maps: a column over two dimensions, with a panel for each topology and one colour scale.

A field shows the mean over all other dimensions. Neighbouring values of a long dimension share a field.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from teamwright.errors import UsageError
from teamwright.lab.evaluation.options import AXES
from teamwright.lab.evaluation.svg import FAINT, INK, PAPER, document, label, short, text_width, vertical_label
from teamwright.lab.evaluation.sweep import NUMBERS

if TYPE_CHECKING:
    from teamwright.lab.evaluation.sweep import Sweep

USUAL_VALUE = "coordination_ratio"
LEFT, TOP, BOTTOM, RIGHT, GAP, TITLE = 84, 92, 112, 30, 34, 22
PANEL_WIDTH, PANEL_HEIGHT, LEAST_FIELD = 300, 230, 16
MOST_FIELDS, MOST_LABELS = 40, 9
RAMP = ("#f7fbff", "#d0e3f0", "#94c4df", "#4a98c9", "#1764ab", "#08306b")
HATCH = (
    '<defs><pattern id="fails" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="1.5" height="7" fill="#dc2626" fill-opacity="0.45"/></pattern></defs>'
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a panel: the mean of the column, and the shares of cells that pass all gates and are recommended."""

    value: float | None
    passing: float
    recommended: float


@dataclass(frozen=True, slots=True)
class HeatmapPanel:
    """The fields of one topology, or of all, in rows from bottom to top."""

    title: str
    rows: Sequence[Sequence[Field]]


@dataclass(frozen=True, slots=True)
class Side:
    """A dimension of the map, with its values grouped if there are many."""

    name: str
    groups: Sequence[Sequence[str]]

    @property
    def labels(self) -> list[tuple[int, str]]:
        """The indexes and texts of the labels, evenly thinned if there are many."""
        step = -(-len(self.groups) // MOST_LABELS)
        return [(place, self.groups[place][0]) for place in range(0, len(self.groups), step)]


def heat_map(sweep: Sweep, value: str | None = None, x: str | None = None, y: str | None = None) -> str:
    """Draw the heat maps, and return the SVG."""
    column = value or USUAL_VALUE
    check_map(column, x, y)
    across, up = _chosen(sweep, x, y)
    sides = _side(sweep, across), _side(sweep, up)
    panels = list(_panels(sweep, column, *sides))
    return _draw(sweep, column, sides, panels)


def check_map(column: str, x: str | None, y: str | None) -> None:
    """Reject a column that is not a number, and dimensions that are unknown or the same."""
    if column not in NUMBERS:
        raise UsageError(f"{column!r} can't be drawn as a heat map; use one of {', '.join(sorted(NUMBERS))}.")
    for name in (x, y):
        if name is not None and name not in AXES:
            raise UsageError(f"There is no dimension {name!r}, expected one of {', '.join(AXES)}.")
    if x is not None and x == y:
        raise UsageError(f"A heat map needs two dimensions, and both are {x!r}; name another for one.")


def _chosen(sweep: Sweep, x: str | None, y: str | None) -> tuple[str, str]:
    """The two dimensions: the requested ones, then those with the most values, topologies last."""
    axes = sweep.axes
    order = sorted(AXES, key=lambda name: (name not in axes.swept, name == "topology", -len(axes.values(name))))
    across = x or next(name for name in order if name != y)
    return across, y or next(name for name in order if name != across)


def _side(sweep: Sweep, name: str) -> Side:
    values = [str(value) for value in sweep.axes.values(name)]
    count = min(len(values), MOST_FIELDS)
    cuts = [len(values) * place // count for place in range(count + 1)]
    return Side(name, [values[start:stop] for start, stop in pairwise(cuts)])


def _panels(sweep: Sweep, column: str, across: Side, up: Side) -> Iterator[HeatmapPanel]:
    """A panel for each topology, or one for all if topology is one of the dimensions."""
    one = "topology" in {across.name, up.name}
    over = (up.name, across.name) if one else ("topology", up.name, across.name)
    titles = [""] if one else list(sweep.axes.topology)
    means = [sweep.cells.means(name, over) for name in (column, "gate_pass", "recommended")]
    size = len(means[0]) // len(titles)
    for place, title in enumerate(titles):
        parts = [found[place * size : (place + 1) * size] for found in means]
        yield HeatmapPanel(title, _rows(parts, across, up))


def _rows(parts: Sequence[Sequence[float | None]], across: Side, up: Side) -> list[list[Field]]:
    width = sum(map(len, across.groups))
    rows: list[list[Field]] = []
    row = 0
    for high in up.groups:
        fields: list[Field] = []
        at = 0
        for wide in across.groups:
            inside = [(row + down) * width + at + right for down in range(len(high)) for right in range(len(wide))]
            mean, passing, recommended = (_mean([part[one] for one in inside]) for part in parts)
            fields.append(Field(mean, passing or 0.0, recommended or 0.0))
            at += len(wide)
        rows.append(fields)
        row += len(high)
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _draw(sweep: Sweep, column: str, sides: tuple[Side, Side], panels: Sequence[HeatmapPanel]) -> str:
    values = [field.value for panel in panels for row in panel.rows for field in row if field.value is not None]
    low, high = (min(values), max(values)) if values else (0.0, 0.0)
    across, up = sides
    width, height = _size(len(across.groups), len(up.groups), alone=len(panels) == 1)
    left = max(LEFT, 40 + max(text_width(text, 11) for _, text in up.labels))
    in_row = 2 if len(panels) > 1 else 1
    lines = -(-len(panels) // in_row)
    parts = [
        label(left, 30, column, size=18, weight=600),
        label(left, 50, _subtitle(sweep, sides), size=12, fill=FAINT),
    ]
    for place, panel in enumerate(panels):
        x = left + place % in_row * (width + GAP)
        y = TOP + place // in_row * (height + GAP + TITLE)
        parts += _panel(panel, (x, y, width, height), (low, high))
        parts += _labels(sides, (x, y, width, height), first=not place % in_row, last=place + in_row >= len(panels))
    bottom = TOP + lines * height + (lines - 1) * (GAP + TITLE)
    parts += [
        label(left + (in_row * (width + GAP) - GAP) / 2, bottom + 36, across.name, size=12, fill=FAINT, anchor="middle")
    ]
    parts += [vertical_label(20, (TOP + bottom) / 2, up.name, size=12), *_legend(left, bottom + 62, low, high)]
    return document(max(left + in_row * (width + GAP) - GAP + RIGHT, 700), bottom + BOTTOM, parts, HATCH)


def _size(columns: int, rows: int, *, alone: bool) -> tuple[float, float]:
    """The size of a panel: larger if there is only one, and never with fields too small to see."""
    width, height = (PANEL_WIDTH * 2, PANEL_HEIGHT * 1.5) if alone else (PANEL_WIDTH, PANEL_HEIGHT)
    return max(width, columns * LEAST_FIELD), max(min(height, rows * 64), rows * LEAST_FIELD)


def _panel(panel: HeatmapPanel, box: tuple[float, float, float, float], scale: tuple[float, float]) -> Iterator[str]:
    left, top, width, height = box
    yield label(left, top - 10, panel.title, size=13, weight=600)
    rows, columns = len(panel.rows), len(panel.rows[0])
    wide, tall = width / columns, height / rows
    for down, row in enumerate(reversed(panel.rows)):
        for right, field in enumerate(row):
            yield from _field(field, (left + right * wide, top + down * tall, wide, tall), scale)
    yield f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" fill="none" stroke="{FAINT}"/>'


def _field(field: Field, box: tuple[float, float, float, float], scale: tuple[float, float]) -> Iterator[str]:
    """A coloured field: hatched if most cells fail a gate, dotted if recommended, with its figure if there is room."""
    x, y, width, height = box
    place = f'x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}"'
    share = _share(field.value, scale)
    yield f'<rect {place} fill="{PAPER if share is None else colour(share)}" stroke="{PAPER}" stroke-width="0.5"/>'
    if field.passing < 0.5:
        yield f'<rect {place} fill="url(#fails)"/>'
    dark = share is not None and share > 0.5
    ink = PAPER if dark else INK
    if field.recommended >= 0.5:
        radius = min(width, height) * 0.16
        yield f'<circle cx="{x + width / 2:.1f}" cy="{y + height * 0.5:.1f}" r="{min(radius, 4):.1f}" fill="{ink}"/>'
    text = "" if field.value is None else short(field.value)
    if text and text_width(text, 10) < width - 8 and height >= 34:
        below = 15 if field.recommended >= 0.5 else 4
        yield label(x + width / 2, y + height / 2 + below, text, size=10, fill=ink, anchor="middle")


def _share(value: float | None, scale: tuple[float, float]) -> float | None:
    low, high = scale
    return None if value is None else (value - low) / (high - low) if high > low else 0.0


def colour(share: float) -> str:
    """The colour of a share between 0 and 1."""
    place = min(max(share, 0.0), 1.0) * (len(RAMP) - 1)
    below = min(int(place), len(RAMP) - 2)
    pairs = zip(_channels(RAMP[below]), _channels(RAMP[below + 1]), strict=True)
    return "#" + "".join(f"{round(one + (other - one) * (place - below)):02x}" for one, other in pairs)


def _channels(text: str) -> tuple[int, ...]:
    return tuple(int(text[at : at + 2], 16) for at in (1, 3, 5))


def _labels(
    sides: tuple[Side, Side], box: tuple[float, float, float, float], *, first: bool, last: bool
) -> Iterator[str]:
    across, up = sides
    left, top, width, height = box
    if last:
        for place, text in across.labels:
            at = left + (place + 0.5) * width / len(across.groups)
            yield label(at, top + height + 16, text, fill=FAINT, anchor="middle")
    if first:
        for place, text in up.labels:
            at = top + height - (place + 0.5) * height / len(up.groups)
            yield label(left - 8, at + 4, text, fill=FAINT, anchor="end")


def _legend(left: float, y: float, low: float, high: float) -> Iterator[str]:
    for step in range(60):
        yield f'<rect x="{left + step * 3:.1f}" y="{y}" width="3.2" height="12" fill="{colour(step / 59)}"/>'
    yield label(left, y + 26, short(low), fill=FAINT)
    yield label(left + 180, y + 26, short(high), fill=FAINT, anchor="end")
    yield f'<rect x="{left + 214:.1f}" y="{y - 1}" width="22" height="14" fill="url(#fails)" stroke="{FAINT}"/>'
    yield label(left + 244, y + 10, "most fail a gate", fill=FAINT)
    yield f'<circle cx="{left + 364:.1f}" cy="{y + 6}" r="4" fill="{INK}"/>'
    yield label(left + 376, y + 10, "mostly recommended", fill=FAINT)


def _subtitle(sweep: Sweep, sides: tuple[Side, Side]) -> str:
    """The dimensions with one value, and those that the means are taken over."""
    axes = sweep.axes
    shown = {"topology", *(side.name for side in sides)}
    fixed = [
        f"{axes.values(name)[0]}"
        for name in AXES
        if name not in axes.swept and name in {"budget", "workload", "protocol"}
    ]
    varied = [name for name in axes.swept if name not in shown]
    return ", ".join(fixed) + (f"{' · ' if fixed else ''}mean over {', '.join(varied)}" if varied else "")
