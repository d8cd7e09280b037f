"""The report as one SVG file: a panel per measure, a bar per contender, drawn with the standard library only.

Axes start at zero and are linear, so that a bar twice as long means twice as much. A bar that would dwarf all others in
its panel is cut short, with a gap that says so; the figure at its end is always the true one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from xml.sax.saxutils import escape

from bench.cases import GRAPHS, IMPORTS, SHAPES, STORES, Shape
from bench.contenders import CONTENDERS
from bench.report import SHAPE_TITLES, STORE_TITLES
from bench.samples import Report
from bench.targets import OURS

WIDTH, MARGIN, GAP = 1080, 28, 36
PANEL_WIDTH = (WIDTH - 2 * MARGIN - GAP) / 2
LABEL_WIDTH, VALUE_WIDTH = 236, 64
TITLE_HEIGHT, ROW_HEIGHT, BAR_HEIGHT = 40, 22, 14
HEAD_HEIGHT, PANEL_GAP = 74, 24
CUT_AT = 6

FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"
OUR_COLOUR, PEER_COLOUR, INK, FAINT = "#0f766e", "#94a3b8", "#0f172a", "#64748b"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its contender, number of turns, length and label."""

    label: str
    note: str
    value: float
    caption: str
    ours: bool


@dataclass(frozen=True, slots=True)
class Panel:
    """One measure with its bars."""

    title: str
    unit: str
    bars: Sequence[Bar]

    @property
    def end(self) -> float:
        """The end of the axis: the longest bar, or a multiple of the median if there are many."""
        longest = max(bar.value for bar in self.bars)
        return min(longest, median(bar.value for bar in self.bars) * CUT_AT) if len(self.bars) > 4 else longest

    @property
    def height(self) -> float:
        """The height of the panel, including its title."""
        return TITLE_HEIGHT + ROW_HEIGHT * len(self.bars)


def svg(report: Report) -> str:
    """The whole picture."""
    panels = [panel for panel in _panels(report) if panel.bars]
    rows = [panels[index : index + 2] for index in range(0, len(panels), 2)]
    body: list[str] = list(_head(report))
    top = float(HEAD_HEIGHT)
    for row in rows:
        for column, panel in enumerate(row):
            body += _drawn(panel, MARGIN + column * (PANEL_WIDTH + GAP), top)
        top += max(panel.height for panel in row) + PANEL_GAP
    size = f'width="{WIDTH}" height="{top:.0f}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {top:.0f}" font-family="{FONT}">'
    return "\n".join([opening, f'<rect {size} fill="#ffffff"/>', *body, "</svg>\n"])


def _panels(report: Report) -> Iterator[Panel]:
    for shapes in (SHAPES, GRAPHS):
        yield from _turn_panels(report, shapes)
    yield Panel("Database after 2200 turns of 500 characters", "MB", list(_database_bars(report)))
    yield Panel("Import, fresh interpreter", "ms", list(_import_bars(report)))


def _turn_panels(report: Report, shapes: Sequence[Shape]) -> Iterator[Panel]:
    for store in STORES:
        for shape in shapes:
            title = f"{SHAPE_TITLES[shape].capitalize()}, {STORE_TITLES[store]}"
            bars = [
                Bar(contender.label if size == report.sizes[0] else "", str(size), cost, f"{cost:,.0f}", name == OURS)
                for name, contender in CONTENDERS.items()
                for size in report.sizes
                if (cost := report.turn_cost(name, store, shape, size)) is not None
            ]
            yield Panel(title, "number of turns, µs per turn", bars)


def _database_bars(report: Report) -> Iterator[Bar]:
    for name, contender in CONTENDERS.items():
        size = report.best("database", name)
        if size is not None:
            yield Bar(contender.label, "", size, f"{size / 1e6:,.1f}", name == OURS)


def _import_bars(report: Report) -> Iterator[Bar]:
    for statement in IMPORTS:
        seconds = report.best("import", statement)
        if seconds is not None:
            label = statement.removeprefix("from ").replace(" import ", ": ").removeprefix("import ")
            yield Bar(label, "", seconds, f"{seconds * 1e3:,.0f}", "teamwright" in statement)


def _head(report: Report) -> Iterator[str]:
    machine = report.machine
    versions = " · ".join(
        f"{contender.label} {machine.versions[contender.distribution]}"
        for contender in CONTENDERS.values()
        if "," not in contender.label
    )
    facts = f"{machine.processor}, {machine.cores} cores · Python {machine.python} · {report.effort}"
    yield _words(MARGIN, 30, "What a framework adds to a turn (lower is better)", size=18, weight=600)
    yield _words(MARGIN, 50, f"{versions} · {facts}", size=11, fill=FAINT)


def _drawn(panel: Panel, left: float, top: float) -> Iterator[str]:
    yield _words(left, top + 16, panel.title, size=13, weight=600)
    yield _words(left + PANEL_WIDTH, top + 16, panel.unit, size=11, fill=FAINT, anchor="end")
    yield f'<line x1="{left}" x2="{left + PANEL_WIDTH}" y1="{top + 24}" y2="{top + 24}" stroke="#e2e8f0"/>'
    for index, bar in enumerate(panel.bars):
        yield from _row(bar, panel.end, left, top + TITLE_HEIGHT - 6 + index * ROW_HEIGHT)


def _row(bar: Bar, end: float, left: float, y: float) -> Iterator[str]:
    start, room = left + LABEL_WIDTH, PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH
    length = max(1.0, min(bar.value / end, 1.0) * room)
    colour, weight = (OUR_COLOUR, 600) if bar.ours else (PEER_COLOUR, 400)
    yield _words(left, y + 11, bar.label, size=11, weight=weight)
    yield _words(start - 8, y + 11, bar.note, size=11, fill=FAINT, anchor="end")
    yield f'<rect x="{start}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT}" rx="2" fill="{colour}"/>'
    if bar.value > end:
        corner, rise = f"{start + length - 22:.1f} {y + BAR_HEIGHT + 1}", BAR_HEIGHT + 2
        yield f'<path d="M{corner} l6 {-rise} h5 l-6 {rise} z" fill="#ffffff"/>'
    yield _words(start + length + 6, y + 11, bar.caption, size=11, weight=weight)


def _words(
    x: float, y: float, content: str, *, size: int, weight: int = 400, fill: str = INK, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{fill}" '
        f'text-anchor="{anchor}">{escape(content)}</text>'
    )
