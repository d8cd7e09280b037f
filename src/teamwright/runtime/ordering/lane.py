"""Tracks which branches are blocked on human input alone, so that the timers of their scopes can be paused.

A branch is blocked while it asks a person itself, while it waits for keys behind a blocked branch, or while it waits
for child branches that are all blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol


class PausableTimer(Protocol):
    """A timer of a scope, which pauses while the scope waits for people."""

    def pause_timer(self) -> None:
        """Pause, because only a person's answer can unblock the scope."""
        ...

    def resume_timer(self) -> None:
        """Resume, because something in the scope can continue."""
        ...


class Lane:
    """The scheduler's view of one branch: working, or parked until something arrives from outside.

    `parent` is the branch that started it, and `open_children` counts the branches that it has started itself.
    `on_change` is called when any branch becomes blocked or unblocked.
    """

    __slots__ = (
        "behind_blocked", "blocked_children", "closed", "is_blocked", "number", "on_change", "open_children",
        "open_questions", "parent", "parked", "timers", "waits_for_children",
    )  # fmt: skip

    def __init__(self, number: int, parent: Lane | None = None, on_change: Callable[[], None] | None = None) -> None:
        self.number, self.parent, self.on_change = number, parent, on_change
        self.parked = self.waits_for_children = self.is_blocked = self.behind_blocked = self.closed = False
        self.open_questions = self.open_children = self.blocked_children = 0
        self.timers: Sequence[PausableTimer] = ()


def update_timers(lane: Lane) -> None:
    """Pause or resume the timers of a branch that has changed, and those of its parents."""
    current: Lane | None = lane
    while current is not None:
        all_blocked = current.waits_for_children and 0 < current.open_children == current.blocked_children
        blocked = current.open_questions > 0 or current.behind_blocked or all_blocked
        if blocked == current.is_blocked:
            break
        current.is_blocked = blocked
        for timer in current.timers:
            timer.pause_timer() if blocked else timer.resume_timer()
        current = current.parent
        if current is not None:
            current.blocked_children += 1 if blocked else -1
    if current is not lane and lane.on_change is not None:
        lane.on_change()
