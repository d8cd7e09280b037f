"""The runs with an answer as one SVG file: a panel per strategy, a line per policy, from the smallest budget on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.budgets import POLICIES, SHARES, Cell
from bench.plot import FAINT, FONT, INK

COLOURS = {"none": "#94a3b8", "auto": "#0f766e", "aggressive": "#b45309"}
COLUMNS, PANEL_WIDTH, PANEL_HEIGHT, MARGIN, HEAD = 4, 250, 150, 24, 56
PLOT_WIDTH, PLOT_HEIGHT = 190, 84
LEFT, TOP = 46, 26


def svg(cells: Sequence[Cell]) -> str:
    """Return the whole picture."""
    strategies = list(dict.fromkeys(cell.strategy for cell in cells))
    rows = -(-len(strategies) // COLUMNS)
    width, height = 2 * MARGIN + COLUMNS * PANEL_WIDTH, HEAD + MARGIN + rows * PANEL_HEIGHT
    size = f'width="{width}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" font-family="{FONT}">',
        f'<rect {size} fill="#ffffff"/>',
        _text(MARGIN, 24, "Runs that end with an answer, by budget in percent of what they need", INK, 15),
    ]
    for place, policy in enumerate(POLICIES):
        x = MARGIN + place * 110
        lines.append(f'<rect x="{x}" y="36" width="18" height="4" fill="{COLOURS[policy]}"/>')
        lines.append(_text(x + 24, 42, policy, FAINT, 12))
    for place, strategy in enumerate(strategies):
        row, column = divmod(place, COLUMNS)
        own = [cell for cell in cells if cell.strategy == strategy]
        lines += _panel(strategy, own, MARGIN + column * PANEL_WIDTH, HEAD + row * PANEL_HEIGHT)
    return "\n".join([*lines, "</svg>\n"])


def _panel(strategy: str, cells: Sequence[Cell], x: float, y: float) -> Iterator[str]:
    yield _text(x + LEFT, y + 16, strategy, INK, 13)
    for share in (0, 50, 100):
        level = y + TOP + PLOT_HEIGHT * (1 - share / 100)
        yield f'<line x1="{x + LEFT}" y1="{level}" x2="{x + LEFT + PLOT_WIDTH}" y2="{level}" stroke="#e2e8f0"/>'
        yield _text(x + LEFT - 6, level + 4, f"{share} %", FAINT, 12, anchor="end")
    for budget in (SHARES[0], 80, 110, SHARES[-1]):
        yield _text(x + LEFT + _across(budget), y + TOP + PLOT_HEIGHT + 16, str(budget), FAINT, 12, anchor="middle")
    for policy in POLICIES:
        points = " ".join(
            f"{x + LEFT + _across(cell.budget):.1f},{y + TOP + PLOT_HEIGHT * (1 - cell.answered):.1f}"
            for cell in cells
            if cell.policy == policy
        )
        yield f'<polyline points="{points}" fill="none" stroke="{COLOURS[policy]}" stroke-width="2"/>'


def _across(budget: int) -> float:
    return PLOT_WIDTH * (budget - SHARES[0]) / (SHARES[-1] - SHARES[0])


def _text(x: float, y: float, text: str, colour: str, size: int, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" text-anchor="{anchor}">{text}</text>'
