"""The states of a step of an expert team, drawn from the table of moves that every run obeys."""

from teamwright.strategies.plan.steps.step_work import FINAL_STATES, MOVES, STATES, StepState
from tools.pictures.svg import (
    AMBER,
    BLUE,
    MARGIN,
    MUTED,
    PAPER,
    RED,
    SLATE,
    TEAL,
    TITLE_HEIGHT,
    arrow,
    box,
    document,
    line,
    text,
)  # fmt: skip

WIDTH, BOX, HEIGHT, GAP, ROW = 960.0, 140.0, 40.0, 190.0, 54.0
TOP = TITLE_HEIGHT + 20
COLOURS = {"completed": TEAL, "degraded": AMBER, "failed": RED, "timeout": RED, "cancelled": SLATE}
WORKING: list[StepState] = [state for state in STATES if state not in FINAL_STATES]


def draw() -> str:
    """The working states in a row, a line for each final state, and a dot at each that can follow."""
    parts: list[str] = []
    for place, state in enumerate(WORKING):
        parts += _column(place, state)
    for place, state in enumerate(FINAL_STATES):
        parts += _final(place, state)
    height = _row(len(FINAL_STATES) - 1) + HEIGHT / 2 + MARGIN
    subtitle = "A dot says that a state can follow; final states have no exits. Drawn from the code that checks moves."
    return document(WIDTH, height, "States of a step", subtitle, parts)


def _left(place: int) -> float:
    return MARGIN + place * GAP


def _middle(place: int) -> float:
    return _left(place) + BOX / 2


def _row(place: int) -> float:
    return TOP + HEIGHT + 44 + place * ROW


def _column(place: int, state: StepState) -> list[str]:
    """A working state, the arrows to its neighbours, and its line down to the last final state that can follow."""
    parts: list[str] = []
    if below := [row for row, final in enumerate(FINAL_STATES) if final in MOVES[state]]:
        parts.append(line(_middle(place), TOP + HEIGHT, _middle(place), _row(below[-1]), stroke=MUTED, width=1.6))
    parts.append(box(_left(place), TOP, BOX, HEIGHT, colour=BLUE))
    parts.append(text(_middle(place), TOP + HEIGHT / 2 + 5, state, weight=600, anchor="middle"))
    following = WORKING[place + 1] if place + 1 < len(WORKING) else None
    if following is not None and following in MOVES[state]:
        parts.append(arrow(_left(place) + BOX, TOP + HEIGHT / 2 - 8, _left(place + 1), TOP + HEIGHT / 2 - 8))
    if place and WORKING[place - 1] in MOVES[state]:
        parts.append(arrow(_left(place), TOP + HEIGHT / 2 + 8, _left(place - 1) + BOX, TOP + HEIGHT / 2 + 8))
    return parts


def _final(place: int, state: StepState) -> list[str]:
    """A final state, the arrow that leads to it, and a dot for each state that it can follow."""
    before = [column for column, one in enumerate(WORKING) if state in MOVES[one]]
    y, left = _row(place), _left(len(WORKING))
    parts = [arrow(_middle(before[0]), y, left, y, stroke=COLOURS[state])]
    parts += [
        f'<circle cx="{_middle(column):.1f}" cy="{y:.1f}" r="5" fill="{COLOURS[state]}" stroke="{PAPER}"/>'
        for column in before
    ]
    parts.append(box(left, y - HEIGHT / 2, BOX, HEIGHT, colour=COLOURS[state]))
    parts.append(text(left + BOX / 2, y + 5, state, weight=600, anchor="middle"))
    return parts
