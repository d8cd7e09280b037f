"""When a run was being worked on: with a driver, and not while a person was waited for. Read from its events alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from teamwright.values.events.event import Event
from teamwright.values.events.run import RunInterrupted, RunPaused, RunResumed, RunStarted

Span = tuple[float, float]
TURNS = (RunStarted, RunResumed, RunPaused, RunInterrupted)
"""What begins and ends the time with a driver; a driver that crashed was there until its last event."""


class Driving:
    """The times in which a run had a driver. What a fork took over was driven too, in the run that it comes from.

    `last` is the latest time of an event of the present driver or, while `copying`, of the run that a fork comes from.
    The last of the `spans` goes on up to there while there is a driver.
    """

    __slots__ = ("_before", "_resting", "copying", "last", "spans")

    def __init__(self) -> None:
        self.last = 0.0
        self.spans: list[Span] = []
        self._before = -inf
        self._resting = True
        self.copying = False

    def take(self, event: Event) -> None:
        """Read one event."""
        if isinstance(event.fact, TURNS):
            self.turn(event)
        if event.time > self.last or self.copying:
            self.last = event.time

    def turn(self, event: Event) -> None:
        """Read one of `TURNS`; what comes after a driver has left is no time with one."""
        match event.fact:
            case RunStarted(origin=origin) if origin is not None and origin.how == "fork":
                self.copying = True
            case RunPaused() | RunInterrupted():
                self._rest(event.time)
            case _:
                if self.copying:
                    self._before, self.copying = self.last, False
                self._rest(self.last)
                self.spans.append((event.time, event.time))
                self.last, self._resting = event.time, False

    def seconds(self, since: float = -inf) -> float:
        """Seconds with a driver of the run's own since the given time, up to the newest event."""
        return sum(max(0.0, end - max(begin, since)) for begin, end in self._own())

    def busy(self, begin: float, end: float, waits: Sequence[Span]) -> float:
        """Seconds between two points with a driver, without those of the waits, which may overlap."""
        waited = _merged(waits)
        before = (-inf, self.last if self.copying else self._before)
        total = 0.0
        for since, until in (before, *self._own()):
            inside = max(begin, since), min(end, until)
            total += max(0.0, inside[1] - inside[0])
            total -= sum(max(0.0, min(inside[1], one[1]) - max(inside[0], one[0])) for one in waited)
        return max(0.0, total)

    def _own(self) -> Sequence[Span]:
        return self.spans if self._resting else [*self.spans[:-1], _until(self.spans[-1], self.last)]

    def _rest(self, time: float) -> None:
        if not self._resting:
            self.spans[-1] = _until(self.spans[-1], time)
            self._resting = True


def _until(span: Span, time: float) -> Span:
    return span[0], max(span[0], time)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """The same time in spans that do not overlap."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
