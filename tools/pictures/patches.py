"""How patches reach the branch of a run, drawn from the events of a real run of `examples/coding_team`.

Which of the two that work side by side ends first differs from run to run, so they are named by that.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from teamwright import Engine, Event, load_team
from teamwright.events import WorkspacePatched, WorkspaceRefused
from tools.pictures.svg import (
    BLUE,
    MARGIN,
    MUTED,
    RED,
    SLATE,
    TEAL,
    TITLE_HEIGHT,
    arrow,
    badge,
    box,
    document,
    line,
    text,
)

WIDTH, LANE, BAR = 960.0, 74.0, 26.0
LEFT, STEP = 190.0, 175.0
HALF = BAR / 2


@dataclass(frozen=True, slots=True)
class Applied:
    """The work of one member: its files, and the lines that were refused first, if any were."""

    member: str
    files: tuple[str, ...]
    refused: str


async def record(root: Path) -> list[Applied]:
    """Run the example in a data folder of its own, and return what was applied, in order."""
    folder, before = root / "examples" / "coding_team", os.environ.get("TEAMWRIGHT_HOME")
    with tempfile.TemporaryDirectory() as home:
        os.environ["TEAMWRIGHT_HOME"] = home
        try:
            async with Engine("memory") as engine:
                stream = engine.stream(load_team(folder), (folder / "task.txt").read_text())
                events = [item async for item in stream if isinstance(item, Event)]
        finally:
            os.environ.pop("TEAMWRIGHT_HOME")
            if before is not None:
                os.environ["TEAMWRIGHT_HOME"] = before
    refused = {
        event.fact.member: ", ".join(one.path for one in event.fact.files)
        for event in events
        if isinstance(event.fact, WorkspaceRefused)
    }
    facts = [event.fact for event in events if isinstance(event.fact, WorkspacePatched)]
    return [Applied(one.member, one.files, refused.get(one.member, "")) for one in facts]


def draw(applied: list[Applied]) -> str:
    """Draw a lane for each member, and the branch below them."""
    names = [*("who ends first", "who ends second")[: len(applied) - 1], applied[-1].member]
    top = TITLE_HEIGHT + 24
    branch = top + len(applied) * LANE + 10
    parts = [text(MARGIN, branch + 4.5, "branch", size=13, mono=True, fill=MUTED)]
    parts.append(line(LEFT - 14, branch, WIDTH - MARGIN, branch, stroke=SLATE, width=2))
    parts.append(badge(LEFT, branch, "0", colour=SLATE, hollow=True))
    end = 0.0
    for number, (one, name) in enumerate(zip(applied, names, strict=True), start=1):
        y = top + (number - 1) * LANE + HALF
        begin = end + 22 if number == len(applied) else LEFT + 26
        parts += [text(MARGIN, y + 4.5, name, size=13, mono=True, fill=MUTED)]
        parts += [line(LEFT - 14, y, WIDTH - MARGIN, y)]
        parts += _bar(begin, y, "its tree", BLUE)
        parts += _bar(begin + 92, y, "tests", TEAL)
        end = begin + STEP
        if one.refused:
            parts += _bar(end + 60, y, "refused", RED)
            parts += [text(end + 66, y + 32, f"conflict in {one.refused}", size=12, fill=RED)]
            parts += _bar(end + 152, y, "resolved", BLUE)
            end += 238
        parts += [arrow(end, y, end, branch - 12, stroke=TEAL), badge(end, branch, str(number), colour=TEAL)]
        parts += [line(end - 8, y, end, y, stroke=TEAL, width=1.6)]
    return document(
        WIDTH,
        branch + 48,
        "From a tree to the branch",
        "Each turn begins at the branch; its patch is applied once its tests pass, or comes back with its lines",
        parts,
    )


def _bar(x: float, y: float, label: str, colour: str) -> list[str]:
    return [
        box(x, y - HALF, 80, BAR, colour=colour),
        text(x + 40, y + 4.5, label, size=12.5, fill=colour, anchor="middle"),
    ]
