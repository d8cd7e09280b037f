"""Lanes of a run, one for each member, with its turns from left to right in the order of the journal."""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.pictures.svg import BLUE, MARGIN, MUTED, box, line, text

WIDTH, LANE, BAR = 960.0, 58.0, 22.0
LEFT, RIGHT = 150.0, WIDTH - MARGIN - 20


@dataclass(frozen=True, slots=True)
class TurnBar:
    """One turn: whose lane it is in, the events at which it starts and ends, and what it is."""

    lane: str
    start: int
    end: int
    label: str
    colour: str = BLUE


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a picture below `top`, and the event numbers that have a place in it."""

    names: Sequence[str]
    numbers: Sequence[int]
    top: float

    @property
    def bottom(self) -> float:
        """Where the last lane ends."""
        return self.top + len(self.names) * LANE

    def x(self, number: int) -> float:
        """The place of an event, in equal steps."""
        return LEFT + self.numbers.index(number) * (RIGHT - LEFT) / max(1, len(self.numbers) - 1)

    def y(self, name: str) -> float:
        """The middle of a lane."""
        return self.top + self.names.index(name) * LANE + LANE / 2 + 8

    def draw(self, bars: Sequence[TurnBar]) -> list[str]:
        """Draw the names, the lanes and the turns."""
        parts: list[str] = []
        for name in self.names:
            parts.append(text(MARGIN, self.y(name) + 4.5, name, size=13, mono=True, fill=MUTED))
            parts.append(line(LEFT - 14, self.y(name), RIGHT + 14, self.y(name)))
        for one in bars:
            y = self.y(one.lane) - BAR / 2
            parts.append(box(self.x(one.start), y, self.x(one.end) - self.x(one.start), BAR, colour=one.colour))
            parts.append(text(self.x(one.start) + 1, y - 6, one.label, size=12.5, fill=one.colour, mono=True))
        return parts
