"""Plots cost against quality of topologies. Panels have the same axes, so that they can be compared.

The SVG is written with the standard library alone; resvg (the extra `lab`) converts it to PNG.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from teamwright.errors import MissingExtra, UsageError
from teamwright.lab.evaluation.tables import report_line, work_line
from teamwright.lab.topology_profiles import Topology

if TYPE_CHECKING:
    from teamwright.lab.evaluation.report import Comparison, Report, Section


FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif"


INK, FAINT, LINE, PAPER = "#0f172a", "#64748b", "#e2e8f0", "#ffffff"


FORMATS = (".svg", ".png")
PNG_ZOOM = 2.0
CHARACTER = 0.58
"""The average width of a character as a share of the font size."""


def document(width: float, height: float, parts: Iterable[str], defs: str = "") -> str:
    """A complete SVG document."""
    size = f'width="{width:.0f}" height="{height:.0f}"'
    box = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box} font-family="{FONT}">'
    return "\n".join([opening, *([defs] if defs else []), f'<rect {size} fill="{PAPER}"/>', *parts, "</svg>\n"])


def label(
    x: float,
    y: float,
    content: str,
    *,
    size: float = 11,
    weight: int = 400,
    fill: str = INK,
    anchor: str = "start",
    halo: bool = False,
) -> str:
    """A line of text; a halo keeps it readable across lines."""
    style = f'font-size="{size:g}" font-weight="{weight}" fill="{fill}" text-anchor="{anchor}"'
    around = f' paint-order="stroke" stroke="{PAPER}" stroke-width="4" stroke-linejoin="round"' if halo else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}{around}>{escape(content)}</text>'


def vertical_label(x: float, y: float, content: str, *, size: float = 11, fill: str = FAINT) -> str:
    """A centred line of text that runs upwards."""
    return (
        f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)" font-size="{size:g}" fill="{fill}" '
        f'text-anchor="middle">{escape(content)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, *, stroke: str = LINE, width: float = 1, dashes: str = "") -> str:
    """A straight line."""
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{stroke}" stroke-width="{width:g}"{dashed}/>'


def text_width(content: str, size: float) -> float:
    """The approximate width of a line of text."""
    return len(content) * size * CHARACTER


def ticks(low: float, high: float, about: int) -> list[float]:
    """About so many round numbers, at least two, that enclose the range from `low` to `high`."""
    rough = max((high - low) or abs(high), 1e-6) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(place * step, 10) for place in range(first, max(last, first + 1) + 1)]


def short(value: float) -> str:
    """A number in few characters: 950, 32k, 1.2M, 0.15."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * 0.9995 and (unit != "k" or abs(value) >= 9999.5):
            return f"{value / size:.3g}{unit}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def save(svg: str, file: str | Path) -> None:
    """Write a drawing to a file, as SVG or PNG by its extension."""
    path = check_file(file)
    content = svg.encode() if path.suffix.lower() == ".svg" else png(svg)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"{str(path)!r} can't be written: {error.strerror}; name another file.") from error


def check_file(file: str | Path) -> Path:
    """Return the path of a drawing; reject an unknown format or one whose extra is missing."""
    path = Path(file)
    if path.suffix.lower() not in FORMATS:
        raise UsageError(f"{str(path)!r} is not a valid name for a plot; use one that ends in {' or '.join(FORMATS)}.")
    if path.suffix.lower() == ".png" and find_spec("resvg_py") is None:
        raise MissingExtra("lab", f"A plot as PNG ({path.name!r}; SVG needs nothing)")
    return path


def png(svg: str) -> bytes:
    """Convert a drawing to PNG, at twice its size in pixels."""
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg, zoom=PNG_ZOOM))


COLOURS: dict[Topology, str] = {
    "single": "#64748b",
    "lead_subagent": "#2563eb",
    "star_team": "#0f766e",
    "mesh_team": "#c2410c",
}


LEFT, TOP, RIGHT, BOTTOM, GAP = 66, 92, 24, 78, 44
WIDE, NARROW, HEIGHT = 620, 330, 380
RADIUS, LABEL = 7, 12
BOUND = "#b91c1c"

Box = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """One topology; a hollow point fails a gate. `before` is the start of an arrow to it."""

    topology: Topology
    tokens: float
    pass_rate: float
    passed: bool
    recommended: bool
    before: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ScatterPanel:
    """Points with the limits of their gates."""

    title: str
    points: Sequence[Point]
    limit: float
    floor: float


def report_plot(report: Report) -> str:
    """Plot the topologies of a report."""
    panels = [ScatterPanel(f"{one.settings.budget} budget", _points(one), *_bounds(one)) for one in report.sections]
    return _draw("Cost against quality", report_line(report), panels)


def comparison_plot(comparison: Comparison) -> str:
    """Plot the topologies of two reports, with arrows from the first to the second."""
    panels = [
        ScatterPanel(f"{one.settings.budget} budget", _points(other, one), *_bounds(one))
        for one, other in zip(comparison.first.sections, comparison.second.sections, strict=True)
    ]
    first, second = comparison.protocols
    title = f"Cost against quality, from {first} to {second}"
    return _draw(title, work_line(comparison.first.settings), panels)


def _points(section: Section, before: Section | None = None) -> list[Point]:
    found: list[Point] = []
    for row in section.results:
        start = before.row(row.topology) if before else None
        found.append(
            Point(
                topology=row.topology,
                tokens=row.total_tokens,
                pass_rate=row.estimated_pass_rate,
                passed=row.gate_pass,
                recommended=row.topology == section.recommendation.recommended_topology,
                before=(start.total_tokens, start.estimated_pass_rate) if start else None,
            )
        )
    return found


def _bounds(section: Section) -> tuple[float, float]:
    return section.results[0].budget_limit_tokens, section.settings.gates.min_pass_rate


@dataclass(frozen=True, slots=True)
class _Frame:
    """The position of a panel, and the mapping from figures to coordinates."""

    left: float
    width: float
    xs: Sequence[float]
    ys: Sequence[float]

    def x(self, tokens: float) -> float:
        return self.left + (tokens - self.xs[0]) / (self.xs[-1] - self.xs[0]) * self.width

    def y(self, rate: float) -> float:
        return TOP + HEIGHT - (rate - self.ys[0]) / (self.ys[-1] - self.ys[0]) * HEIGHT


def _draw(title: str, subtitle: str, panels: Sequence[ScatterPanel]) -> str:
    width = WIDE if len(panels) == 1 else NARROW
    xs = _ticks([x for one in panels for x in _extent(one)[0]], 6 if len(panels) == 1 else 4)
    ys = _ticks([y for one in panels for y in _extent(one)[1]], 6)
    parts = [label(LEFT, 30, title, size=18, weight=600), label(LEFT, 50, subtitle, size=12, fill=FAINT)]
    for place, panel in enumerate(panels):
        frame = _Frame(LEFT + place * (width + GAP), width, xs, ys)
        parts += [*_axes(frame, panel, first=not place), *_marks(frame, panel)]
    parts.append(vertical_label(20, TOP + HEIGHT / 2, "tasks that pass", size=12))
    full = LEFT + len(panels) * width + (len(panels) - 1) * GAP + RIGHT
    parts += _legend(TOP + HEIGHT + BOTTOM - 16)
    return document(max(full, 700), TOP + HEIGHT + BOTTOM, parts)


def _extent(panel: ScatterPanel) -> tuple[list[float], list[float]]:
    """All figures that the axes must cover."""
    starts = [one.before for one in panel.points if one.before]
    xs = [panel.limit, *(one.tokens for one in panel.points), *(x for x, _ in starts)]
    return xs, [panel.floor, *(one.pass_rate for one in panel.points), *(y for _, y in starts)]


def _ticks(values: Sequence[float], about: int) -> list[float]:
    """Ticks with some margin around the figures, so that labels have room."""
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or abs(high) * 0.05
    return ticks(max(0.0, low - room), high + room, about)


def _axes(frame: _Frame, panel: ScatterPanel, *, first: bool) -> Iterator[str]:
    right, base = frame.left + frame.width, TOP + HEIGHT
    yield label(frame.left, TOP - 12, panel.title, size=13, weight=600)
    for value in frame.ys:
        yield line(frame.left, frame.y(value), right, frame.y(value))
        if first:
            yield label(frame.left - 8, frame.y(value) + 4, f"{value * 100:.4g}%", fill=FAINT, anchor="end")
    for value in frame.xs:
        yield line(frame.x(value), base, frame.x(value), base + 4, stroke=FAINT)
        yield label(frame.x(value), base + 18, short(value), fill=FAINT, anchor="middle")
    yield line(frame.left, base, right, base, stroke=FAINT)
    yield label(frame.left + frame.width / 2, base + 36, "tokens", size=12, fill=FAINT, anchor="middle")
    yield line(frame.left, frame.y(panel.floor), right, frame.y(panel.floor), stroke=BOUND, dashes="5 4")
    yield line(frame.x(panel.limit), TOP, frame.x(panel.limit), base, stroke=BOUND, dashes="5 4")


def _marks(frame: _Frame, panel: ScatterPanel) -> Iterator[str]:
    """Arrows, points on top of them, and labels where there is room."""
    for one in panel.points:
        if one.before:
            start = frame.x(one.before[0]), frame.y(one.before[1])
            yield line(*start, frame.x(one.tokens), frame.y(one.pass_rate), stroke=COLOURS[one.topology], width=1.5)
            yield f'<circle cx="{start[0]:.1f}" cy="{start[1]:.1f}" r="3" fill="{COLOURS[one.topology]}"/>'
    for one in panel.points:
        yield from _mark(frame.x(one.tokens), frame.y(one.pass_rate), one)
    taken = list(_obstacles(frame, panel))
    for one in panel.points:
        box, anchor = _place(frame, one, taken)
        taken.append(box)
        at = {"start": box[0], "middle": (box[0] + box[2]) / 2, "end": box[2]}[anchor]
        weight, colour = (700 if one.recommended else 400), COLOURS[one.topology]
        yield label(at, box[3] - 4, one.topology, size=LABEL, weight=weight, fill=colour, anchor=anchor, halo=True)


def _obstacles(frame: _Frame, panel: ScatterPanel) -> Iterator[Box]:
    """The boxes that labels must not cover: points, arrows and limit lines."""
    x, y = frame.x(panel.limit), frame.y(panel.floor)
    yield x - 2, TOP, x + 2, TOP + HEIGHT
    yield frame.left, y - 2, frame.left + frame.width, y + 2
    for one in panel.points:
        end = frame.x(one.tokens), frame.y(one.pass_rate)
        yield _around(*end, RADIUS + 5)
        start = (frame.x(one.before[0]), frame.y(one.before[1])) if one.before else end
        for step in range(20 if one.before else 0):
            share = step / 20
            yield _around(start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share, 3)


def _mark(x: float, y: float, one: Point) -> Iterator[str]:
    colour = COLOURS[one.topology]
    if one.recommended:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS + 5}" fill="none" stroke="{INK}" stroke-width="1.5"/>'
    fill = colour if one.passed else PAPER
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" fill="{fill}" stroke="{colour}" stroke-width="2.5"/>'


def _around(x: float, y: float, reach: float) -> Box:
    return x - reach, y - reach, x + reach, y + reach


def _place(frame: _Frame, one: Point, taken: Sequence[Box]) -> tuple[Box, str]:
    """The position of a label: the first free one beside, above or below its point within the panel."""
    x, y = frame.x(one.tokens), frame.y(one.pass_rate)
    width, away = text_width(one.topology, LABEL) * (1.1 if one.recommended else 1), RADIUS + 8
    places: list[tuple[Box, str]] = []
    for rise in (0, -22, 22, -38, 38):
        up, down = y + rise - LABEL / 2 - 2, y + rise + LABEL / 2 + 2
        places.append(((x + away, up, x + away + width, down), "start"))
        places.append(((x - away - width, up, x - away, down), "end"))
        if rise:
            places.append(((x - width / 2, up, x + width / 2, down), "middle"))
    free = (place for place in places if _inside(frame, place[0]) and not any(_meet(place[0], box) for box in taken))
    return next(free, places[0])


def _inside(frame: _Frame, box: Box) -> bool:
    return frame.left <= box[0] and box[2] <= frame.left + frame.width and box[1] >= TOP and box[3] <= TOP + HEIGHT


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _legend(y: float) -> Iterator[str]:
    x = float(LEFT)
    for text, fill, radius, stroke in (
        ("passes its gates", FAINT, 5, FAINT),
        ("fails a gate", PAPER, 5, FAINT),
        ("recommended", PAPER, 8, INK),
    ):
        style = f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"'
        yield f'<circle cx="{x + 8:.1f}" cy="{y - 4:.1f}" r="{radius}" {style}/>'
        yield label(x + 22, y, text, fill=FAINT)
        x += 46 + text_width(text, 11)
    yield line(x, y - 4, x + 22, y - 4, stroke=BOUND, dashes="5 4")
    yield label(x + 28, y, "limits of tokens and pass rate", fill=FAINT)
