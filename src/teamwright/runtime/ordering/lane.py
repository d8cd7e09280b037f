"""Which branches wait for people and for nothing else: the timers of their scopes stand still meanwhile.

A branch does so while it asks a person itself, while it waits for keys behind one that does, or while it waits for
branches of its own that all do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class PausableTimer(Protocol):
    """A timer of a scope, which pauses while the scope waits for people."""

    def pause_timer(self) -> None:
        """Pause: nothing in the scope can go on but by a person's answer."""
        ...

    def resume_timer(self) -> None:
        """Run again: something in the scope can go on."""
        ...


class Lane:
    """One branch of a run: it is either at work or parked, waiting for something from outside.

    `around` is the branch that started it and `inside` counts those that it started itself and that have begun. `tell`
    is called when some branch has come to stand still, or does no longer.
    """

    __slots__ = (
        "around",
        "asking",
        "behind",
        "closed",
        "inside",
        "number",
        "parked",
        "still",
        "still_inside",
        "tell",
        "timers",
        "waits",
    )  # fmt: skip

    def __init__(self, number: int, around: Lane | None = None, tell: Callable[[], None] | None = None) -> None:
        self.number, self.around, self.tell = number, around, tell
        self.parked = self.waits = self.still = self.behind = self.closed = False
        self.asking = self.inside = self.still_inside = 0
        self.timers: Sequence[PausableTimer] = ()


def update_timers(lane: Lane) -> None:
    """Pause or resume the timers of a branch that has changed, and those of the branches around it."""
    around: Lane | None = lane
    while around is not None:
        still = around.asking > 0 or around.behind or (around.waits and 0 < around.inside == around.still_inside)
        if still == around.still:
            break
        around.still = still
        for timer in around.timers:
            timer.pause_timer() if still else timer.resume_timer()
        around = around.around
        if around is not None:
            around.still_inside += 1 if still else -1
    if around is not lane and lane.tell is not None:
        lane.tell()
