"""Which branches wait for people and for nothing else: the clocks of their scopes stand still meanwhile.

A branch does so while it asks a person itself, while it waits for keys behind one that does, or while it waits for
branches of its own that all do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class Clock(Protocol):
    """Something that measures the time of a scope."""

    def stop(self) -> None:
        """Nothing in the scope can go on but by a person's answer."""
        ...

    def go_on(self) -> None:
        """Something can."""
        ...


class Lane:
    """One branch of a run: it is either at work or parked, waiting for something from outside.

    `around` is the branch that started it and `inside` counts those that it started itself and that have begun. `tell`
    is called when some branch has come to stand still, or does no longer.
    """

    __slots__ = (
        "around", "asking", "behind", "clocks", "closed", "inside", "number", "parked", "still", "still_inside", "tell",
        "waits",
    )  # fmt: skip

    def __init__(self, number: int, around: Lane | None = None, tell: Callable[[], None] | None = None) -> None:
        self.number, self.around, self.tell = number, around, tell
        self.parked = self.waits = self.still = self.behind = self.closed = False
        self.asking = self.inside = self.still_inside = 0
        self.clocks: Sequence[Clock] = ()


def look_again(lane: Lane) -> None:
    """Something about a branch has changed: stop or start its clocks, and those of the branches around it."""
    around: Lane | None = lane
    while around is not None:
        still = around.asking > 0 or around.behind or (around.waits and 0 < around.inside == around.still_inside)
        if still == around.still:
            break
        around.still = still
        for clock in around.clocks:
            clock.stop() if still else clock.go_on()
        around = around.around
        if around is not None:
            around.still_inside += 1 if still else -1
    if around is not lane and lane.tell is not None:
        lane.tell()
