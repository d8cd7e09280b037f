"""Draws the KPIs of runs as bar charts: a panel for each figure, with a bar for each run.

Bars in a panel start at zero and share a scale, so that lengths can be compared; each panel has its own scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from teamwright.history.kpis import Kpis
from teamwright.lab.drawing.svg import FAINT, INK, LINE, document, label, line, save, short, text_width
from teamwright.values.text.display import cut

WORK, TALK, JUDGE, PLAIN = "#0f766e", "#c2410c", "#7c3aed", "#2563eb"
LEFT, TOP, BOTTOM, GAP, BELOW = 24, 104, 24, 40, 56
COLUMNS = 3
PANEL, ROW, BAR = 190, 34, 18
LABEL, LONGEST = 12, 28
ROOM = 48
"""The space to the right of the longest bar, for its number."""


@dataclass(frozen=True, slots=True)
class BarPanel:
    """One figure of every run: a bar consists of coloured parts; None for a run without that figure."""

    title: str
    bars: Sequence[Sequence[tuple[float, str]] | None]
    unit: str = ""
    whole: float | None = None

    @property
    def longest(self) -> float:
        """The end of the scale."""
        sums = (sum(value for value, _ in bar) for bar in self.bars if bar is not None)
        return max((*sums, self.whole or 0.0)) or 1.0


def plot_kpis(runs: Sequence[Kpis], file: Path) -> None:
    """Draw the KPIs of these runs to a file."""
    save(kpi_plot(runs), file)


def kpi_plot(runs: Sequence[Kpis]) -> str:
    """Draw the KPIs of these runs, and return the SVG."""
    names = [cut(one.run_id, LONGEST) for one in runs]
    start = LEFT + max(text_width(name, LABEL) for name in names) + 16
    panels = [panel for panel in _panels(runs) if any(bar is not None for bar in panel.bars)]
    parts = [label(LEFT, 32, "Runs side by side", size=18, weight=600), *_legend(runs)]
    height = len(runs) * ROW
    for place, panel in enumerate(panels):
        row, column = divmod(place, COLUMNS)
        top = TOP + row * (height + BELOW)
        if not column:
            parts += [label(LEFT, _middle(top, at) + 4, name, size=LABEL, weight=600) for at, name in enumerate(names)]
        parts += _draw_panel(panel, start + column * (PANEL + GAP), top)
    width = start + COLUMNS * PANEL + (COLUMNS - 1) * GAP + LEFT
    return document(width, TOP + -(-len(panels) // COLUMNS) * (height + BELOW) - BELOW + BOTTOM, parts)


def _panels(runs: Sequence[Kpis]) -> Iterator[BarPanel]:
    yield BarPanel("tokens", [_tokens(one) for one in runs])
    yield BarPanel("messages", [_plain(one.messages) for one in runs])
    yield BarPanel("turns", [_plain(one.asks) for one in runs])
    yield BarPanel("seconds in all", [_plain(one.seconds) for one in runs], " s")
    yield BarPanel("p95 of a turn", [_plain(one.p95_latency_s) for one in runs], " s")
    yield BarPanel(
        "steps that pass", [_plain(None if one.pass_rate is None else 100 * one.pass_rate) for one in runs], "%", 100
    )


def _tokens(run: Kpis) -> Sequence[tuple[float, str]]:
    return (run.work_tokens, WORK), (run.coordination_tokens, TALK), (run.judge_tokens, JUDGE)


def _plain(value: float | None) -> Sequence[tuple[float, str]] | None:
    return None if value is None else ((value, PLAIN),)


def _draw_panel(panel: BarPanel, left: float, top: float) -> Iterator[str]:
    yield label(left, top - 14, panel.title, size=13, weight=600)
    yield line(left, top - 4, left, top + len(panel.bars) * ROW + 4, stroke=FAINT)
    for place, bar in enumerate(panel.bars):
        middle = _middle(top, place)
        yield line(left, middle + ROW / 2, left + PANEL, middle + ROW / 2, stroke=LINE, width=0.5)
        if bar is None:
            yield label(left + 6, middle + 4, "–", fill=FAINT)
            continue
        x = left
        for value, colour in bar:
            width = value / panel.longest * (PANEL - ROOM)
            yield f'<rect x="{x:.1f}" y="{middle - BAR / 2:.1f}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>'
            x += width
        yield label(x + 6, middle + 4, f"{short(sum(value for value, _ in bar))}{panel.unit}", fill=INK)


def _legend(runs: Sequence[Kpis]) -> Iterator[str]:
    x = float(LEFT)
    kinds = [("work", WORK), ("coordination", TALK)]
    if any(one.judge_tokens for one in runs):
        kinds.append(("judging", JUDGE))
    for name, colour in kinds:
        yield f'<rect x="{x:.1f}" y="49" width="11" height="11" fill="{colour}"/>'
        yield label(x + 17, 59, name, size=LABEL, fill=FAINT)
        x += 17 + text_width(name, LABEL) + 20


def _middle(top: float, place: int) -> float:
    return top + (place + 0.5) * ROW
