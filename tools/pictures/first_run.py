"""The picture at the top of the README: what `make run` prints, drawn as a terminal.

It is drawn from the record of a real run, `docs/pictures/first_run.txt`, which holds both output streams:
`make run > docs/pictures/first_run.txt 2>&1`, then `make pictures`.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tools.pictures import svg

RECORD = Path("docs") / "pictures" / "first_run.txt"
COLUMN, LINE, SIZE = 8.0, 21.0, 13.0
PADDING = 20.0
SCREEN, WHITE, GREY, GREEN = "#0f172a", "#f8fafc", "#94a3b8", "#4ade80"
COLOURS = {
    "first_team": "#e2e8f0",
    "guests": "#e2e8f0",
    "moods": "#e2e8f0",
    "postman": "#fbbf24",
    "clerk": "#38bdf8",
    "listener": "#f472b6",
    "manager": "#fbbf24",
}
SAID = re.compile(r"(?P<name> *\w+ +)(?P<said>(?:▸|✓|!) .*|\w+ of .*)")
USED = re.compile(r"(?P<said>.*?)(?P<used>  \d[\d ]* tok .*)")


def read_record(root: Path) -> list[str]:
    """Return the lines of the run, up to its summary."""
    lines = (root / RECORD).read_text(encoding="utf-8").splitlines()
    last = next(number for number, line in enumerate(lines) if line.startswith("completed"))
    return lines[: last + 1]


def draw(lines: list[str]) -> str:
    """Draw the lines on a dark screen, each member in its own colour."""
    shown = ["$ make run", *lines]
    width = max(len(line) for line in shown) * COLUMN + 2 * (PADDING + svg.MARGIN)
    bottom = svg.TITLE_HEIGHT + len(shown) * LINE + 2 * PADDING
    at = f'x="{svg.MARGIN:.0f}" y="{svg.TITLE_HEIGHT:.0f}"'
    size = f'width="{width - 2 * svg.MARGIN:.0f}" height="{bottom - svg.TITLE_HEIGHT:.0f}"'
    screen = f'<rect {at} {size} rx="8" fill="{SCREEN}"/>'
    parts = [part for number, line in enumerate(shown) for part in _line(number, line)]
    title = "A team of experts reads the mail of a hotel"
    subtitle = "Each step of its plan is reviewed. Two members use a tiny model that runs on your own machine."
    return svg.document(width, bottom + svg.MARGIN, title, subtitle, [screen, *parts])


def _line(number: int, line: str) -> Iterator[str]:
    y = svg.TITLE_HEIGHT + PADDING + LINE * (number + 0.7)
    column = 0
    for content, fill, weight in _spans(line):
        x = svg.MARGIN + PADDING + column * COLUMN
        column += len(content)
        indent = len(content) - len(content.lstrip())
        if content.strip():
            yield svg.text(x + indent * COLUMN, y, content.strip(), size=SIZE, weight=weight, fill=fill, mono=True)


def _spans(line: str) -> Iterator[tuple[str, str, int]]:
    """The parts of a line, each with its colour and weight."""
    spoken = SAID.fullmatch(line)
    if line.startswith(("$", "completed")):
        yield line, GREEN, 700
    elif line.startswith(" ·"):
        yield line, GREY, 400
    elif spoken is None or spoken["name"].strip() not in COLOURS:
        yield line, WHITE, 700
    else:
        name = spoken["name"]
        yield name, COLOURS[name.strip()], 700
        used = USED.fullmatch(spoken["said"])
        is_reply = spoken["said"].startswith("▸")
        yield used["said"] if used else spoken["said"], WHITE if is_reply else GREY, 400
        if used:
            yield used["used"], GREY, 400
