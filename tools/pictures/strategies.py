"""Six strategies, drawn from the diagrams that `teamwright show` uses for the teams in `examples/`."""

from collections.abc import Sequence
from pathlib import Path

from teamwright import load_team
from teamwright.strategies import Diagram, Members
from tools.pictures.svg import BLUE, MARGIN, MUTED, SLATE, TEAL, TITLE_HEIGHT, arrow, box, document, line, text

SHOWN = {
    "sequential": "each member once, in order",
    "round_robin": "all members, round after round",
    "fan_out": "the same work on many chunks",
    "graph": "along edges, also back",
    "dag": "each step when its inputs are ready",
    "hierarchical": "a lead delegates and answers",
}
COLUMNS, PANEL = 3, 330.0
STARTS = (0.0, 212.0, 520.0)
"""Where each row of panels starts, and the last one ends."""
WIDE, HIGH, STEP = 98.0, 26.0, 50.0
TOP = 58.0
"""From the top of a panel to its first row of members."""


def draw(root: Path) -> str:
    """One panel for each strategy."""
    parts: list[str] = []
    for number, (name, about) in enumerate(SHOWN.items()):
        x = MARGIN + number % COLUMNS * PANEL
        y = TITLE_HEIGHT + STARTS[number // COLUMNS]
        parts += [text(x, y + 18, name, size=15, weight=700, fill=BLUE, mono=True), text(x, y + 38, about, fill=MUTED)]
        parts += _shape(_diagram(root / "examples" / name), x, y + TOP)
    subtitle = "A strategy is one word of a team. Green boxes are agents or their steps; the examples draw themselves."
    return document(
        MARGIN * 2 + COLUMNS * PANEL - 24, TITLE_HEIGHT + STARTS[-1], "How members work together", subtitle, parts
    )


def _diagram(folder: Path) -> Diagram:
    team = load_team(folder)
    return team.strategy.diagram(team.settings, Members(team.members, team.helpers))


def _shape(diagram: Diagram, x: float, y: float) -> list[str]:
    """Boxes in rows, each below those that lead to it; an arrow that leads back goes round on the right."""
    names = [node.id for node in diagram.nodes]
    forward = [(one.source, one.to) for one in diagram.arrows if names.index(one.source) < names.index(one.to)]
    back = [(one.source, one.to) for one in diagram.arrows if (one.source, one.to) not in forward]
    replies = [(a, b) for a, b in back if (b, a) in forward]
    rows = _rows(names, forward)
    middle = x + (PANEL - 24) / 2
    places = {name: (middle + column * (WIDE + 6) - WIDE / 2, y + row * STEP) for name, (row, column) in rows.items()}
    parts: list[str] = []
    for a, b in forward:
        upper, lower = (places[a][0] + WIDE / 2, places[a][1] + HIGH + 2), (places[b][0] + WIDE / 2, places[b][1] - 2)
        parts.append(arrow(*upper, *lower, stroke=SLATE))
        if (b, a) in replies:
            parts.append(arrow(*lower, *upper, stroke=SLATE))
    edge = max(at for at, _ in places.values()) + WIDE + 18
    for a, b in (one for one in back if one not in replies):
        start, end = places[a], places[b]
        parts += [
            line(start[0] + WIDE, start[1] + HIGH / 2, edge, start[1] + HIGH / 2, stroke=SLATE, width=1.3),
            line(edge, start[1] + HIGH / 2, edge, end[1] + HIGH / 2, stroke=SLATE, width=1.3),
            arrow(edge, end[1] + HIGH / 2, end[0] + WIDE + 2, end[1] + HIGH / 2, stroke=SLATE),
        ]
    for node in diagram.nodes:
        (left, top), colour = places[node.id], TEAL if node.agent else SLATE
        parts += [
            box(left, top, WIDE, HIGH, colour=colour),
            text(left + WIDE / 2, top + 17, node.title, size=12, anchor="middle", fill=colour),
        ]
    return parts


def _rows(names: Sequence[str], arrows: Sequence[tuple[str, str]]) -> dict[str, tuple[int, float]]:
    """The row of each node, below all that lead to it, and its column, as so many boxes from the middle of the row."""
    rows: dict[str, int] = {}
    for name in names:
        rows[name] = max((rows[source] + 1 for source, to in arrows if to == name and source in rows), default=0)
    for name in (one for one in names if one not in {to for _, to in arrows}):
        rows[name] = min((rows[to] - 1 for source, to in arrows if source == name), default=0)
    beside = {row: [one for one in names if rows[one] == row] for row in rows.values()}
    return {name: (row, beside[row].index(name) - (len(beside[row]) - 1) / 2) for name, row in rows.items()}
