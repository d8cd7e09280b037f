"""When a run was being worked on: with a driver, and not while a person was waited for. Read from its events alone."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.values.events import Event

Span = tuple[float, float]


class Driving:
    """The times in which a run had a driver. What a fork took over was driven too, in the run that it comes from."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._before: Span | None = None
        self._last_copied = 0
        self._resting = True

    def take(self, event: Event, *, copied: bool) -> None:
        """Read one event; `copied` if the run took it over from another."""
        if copied and event.kind != "run.started":
            self._last_copied = event.number
            begin, end = self._before or (event.time, event.time)
            self._before = (min(begin, event.time), max(end, event.time))
        elif event.kind in {"run.started", "run.resumed"}:
            self._spans.append((event.time, event.time))
            self._resting = False
        elif not self._resting:
            begin, end = self._spans[-1]
            self._spans[-1] = (begin, max(end, event.time))
            self._resting = event.kind == "run.paused"

    def is_copied(self, event: Event | None) -> bool:
        """Whether this is an event that the run took over."""
        return event is not None and event.number <= self._last_copied

    def busy(self, begin: float, end: float, waits: Sequence[Span]) -> float:
        """Seconds between two points with a driver, without those of the waits, which may overlap."""
        spans = self._spans if self._before is None else [self._before, *self._spans]
        waited = _merged(waits)
        total = 0.0
        for since, until in spans:
            inside = max(begin, since), min(end, until)
            total += max(0.0, inside[1] - inside[0])
            total -= sum(max(0.0, min(inside[1], one[1]) - max(inside[0], one[0])) for one in waited)
        return max(0.0, total)


def _merged(spans: Sequence[Span]) -> list[Span]:
    """The same time in spans that do not overlap."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found
