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
RED = "#f87171"
COLOURS = {"first_team": "#e2e8f0", "postman": "#fbbf24", "clerk": "#38bdf8", "checker": "#f472b6"}
SAID = re.compile(r"(?P<name>\w+ +)(?P<said>(?:▸|✓|!) .*|\w+ of .*)")
USED = re.compile(r"(?P<said>.*?)(?P<used>  \d[\d ]* tok .*)")
LABELLED = re.compile(r"(?P<label>  [a-z ]{11})(?P<rest>\S.*)")
END = "What next"


def read_record(root: Path) -> list[str]:
    """Return the lines of the run, up to the advice at its end."""
    lines = (root / RECORD).read_text(encoding="utf-8").splitlines()
    return lines[: lines.index(END) - 1]


def draw(lines: list[str]) -> str:
    """Draw the lines on a dark screen, each member in its own colour."""
    shown = ["$ make run", *lines]
    width = max(len(line) for line in shown) * COLUMN + 2 * (PADDING + svg.MARGIN)
    bottom = svg.TITLE_HEIGHT + len(shown) * LINE + 2 * PADDING
    at = f'x="{svg.MARGIN:.0f}" y="{svg.TITLE_HEIGHT:.0f}"'
    size = f'width="{width - 2 * svg.MARGIN:.0f}" height="{bottom - svg.TITLE_HEIGHT:.0f}"'
    screen = f'<rect {at} {size} rx="8" fill="{SCREEN}"/>'
    parts = [part for number, line in enumerate(shown) for part in _line(number, line)]
    title = "A team checks its model, is killed in the middle, and asks for no answer twice"
    subtitle = "The first run: a model of 135 million parameters on your own machine, without a key."
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
    spoken, labelled = SAID.fullmatch(line), LABELLED.fullmatch(line)
    if line.startswith("$ kill"):
        command, _, comment = line.partition("#")
        yield command, RED, 700
        yield f"#{comment}", GREY, 400
    elif line.startswith(("$", "completed")):
        yield line, GREEN, 700
    elif spoken is not None and spoken["name"].strip() in COLOURS:
        yield from _spoken_spans(spoken["name"], spoken["said"])
    elif labelled is not None:
        yield labelled["label"], GREEN, 700
        yield labelled["rest"], WHITE, 400
    else:
        yield line, WHITE, 700


def _spoken_spans(name: str, said: str) -> Iterator[tuple[str, str, int]]:
    yield name, COLOURS[name.strip()], 700
    used = USED.fullmatch(said)
    yield used["said"] if used else said, WHITE if said.startswith("▸") else GREY, 400
    if used:
        yield used["used"], GREY, 400
