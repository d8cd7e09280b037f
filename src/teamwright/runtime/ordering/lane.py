"""Tracks which branches are blocked on human input alone, so that the timers of their scopes can be paused.

A branch is blocked while it asks a person itself, while it waits for keys behind a blocked branch, or while it waits
for child branches that are all blocked. It is idle while it is blocked, waits for a provider (for its rate limit, or
before a retry), or waits for child branches that are all idle.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Protocol


class PausableTimer(Protocol):
    """A timer of a scope, which pauses while the scope waits for people; a timer of work, also while it is idle."""

    def pause_timer(self) -> None:
        """Pause, because nothing in the scope can continue by itself."""
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
        "behind_blocked", "blocked_children", "closed", "idle_children", "is_blocked", "is_idle", "number", "on_change",
        "open_children", "open_questions", "parent", "parked", "provider_waits", "timers", "waits_for_children",
        "work_timers",
    )  # fmt: skip

    def __init__(self, number: int, parent: Lane | None = None, on_change: Callable[[], None] | None = None) -> None:
        self.number, self.parent, self.on_change = number, parent, on_change
        self.parked = self.waits_for_children = self.is_blocked = self.behind_blocked = self.closed = False
        self.is_idle = False
        self.open_questions = self.provider_waits = 0
        self.open_children = self.blocked_children = self.idle_children = 0
        self.timers: Sequence[PausableTimer] = ()
        self.work_timers: Sequence[PausableTimer] = ()


def update_timers(lane: Lane) -> None:
    """Pause or resume the timers of a branch that has changed, and those of its parents."""
    current: Lane | None = lane
    was_blocked = lane.is_blocked
    while current is not None:
        waits = current.waits_for_children and current.open_children > 0
        blocked = current.open_questions > 0 or current.behind_blocked
        idle = blocked or current.provider_waits > 0 or (waits and current.open_children == current.idle_children)
        blocked = blocked or (waits and current.open_children == current.blocked_children)
        by_blocked, by_idle = blocked - current.is_blocked, idle - current.is_idle
        if not (by_blocked or by_idle):
            break
        current.is_blocked, current.is_idle = blocked, idle
        _set_paused(current.timers if by_blocked else (), paused=blocked)
        _set_paused(current.work_timers if by_idle else (), paused=idle)
        current = current.parent
        if current is not None:
            current.blocked_children += by_blocked
            current.idle_children += by_idle
    if lane.is_blocked != was_blocked and lane.on_change is not None:
        lane.on_change()


def _set_paused(timers: Sequence[PausableTimer], *, paused: bool) -> None:
    for timer in timers:
        timer.pause_timer() if paused else timer.resume_timer()


@contextmanager
def waiting_for_provider(lane: Lane) -> Generator[None]:
    """Note that a call of this branch waits for its provider inside the block."""
    lane.provider_waits += 1
    update_timers(lane)
    try:
        yield
    finally:
        lane.provider_waits -= 1
        update_timers(lane)
