"""The time spans in which a driver was attached to a run, computed from events alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from teamwright.values.events.event import Event
from teamwright.values.events.run import RunInterrupted, RunPaused, RunQueued, RunResumed, RunStarted

Span = tuple[float, float]
DRIVER_CHANGES = (RunStarted, RunResumed, RunPaused, RunInterrupted, RunQueued)
"""Facts that attach or detach a driver; a crashed driver counts as attached until its last event."""


class DriverTime:
    """The spans in which a run had a driver. Inherited events of a fork count as driven, by the source run.

    `last` is the time of the latest event: of the current driver or, while `copying`, of the source run of a fork.
    While a driver is attached, the last of the `spans` extends to it.
    """

    __slots__ = ("_before", "_detached", "copying", "last", "spans")

    def __init__(self) -> None:
        self.last = 0.0
        self.spans: list[Span] = []
        self._before = -inf
        self._detached = True
        self.copying = False

    def apply(self, event: Event) -> None:
        """Apply one event."""
        if isinstance(event.fact, DRIVER_CHANGES):
            self.apply_change(event)
        if event.time > self.last or self.copying:
            self.last = event.time

    def apply_change(self, event: Event) -> None:
        """Apply one of `DRIVER_CHANGES`; time after a driver has detached does not count."""
        match event.fact:
            case RunStarted(origin=origin) if origin is not None and origin.how == "fork":
                self.copying = True
            case RunPaused() | RunInterrupted() | RunQueued():
                self._detach(event.time)
            case _:
                if self.copying:
                    self._before, self.copying = self.last, False
                self._detach(self.last)
                self.spans.append((event.time, event.time))
                self.last, self._detached = event.time, False

    def seconds(self, since: float = -inf) -> float:
        """Seconds in which this run had a driver, from `since` to the latest event."""
        return sum(max(0.0, end - max(begin, since)) for begin, end in self._own())

    def busy_seconds(self, begin: float, end: float, waits: Sequence[Span]) -> float:
        """Seconds with a driver between two times, minus the waits, which may overlap."""
        waited = _merged(waits)
        before = (-inf, self.last if self.copying else self._before)
        total = 0.0
        for since, until in (before, *self._own()):
            inside = max(begin, since), min(end, until)
            total += max(0.0, inside[1] - inside[0])
            total -= sum(max(0.0, min(inside[1], one[1]) - max(inside[0], one[0])) for one in waited)
        return max(0.0, total)

    def _own(self) -> Sequence[Span]:
        return self.spans if self._detached else [*self.spans[:-1], _until(self.spans[-1], self.last)]

    def _detach(self, time: float) -> None:
        if not self._detached:
            self.spans[-1] = _until(self.spans[-1], time)
            self._detached = True


def _until(span: Span, time: float) -> Span:
    return span[0], max(span[0], time)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Merge overlapping spans."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
