"""Publishes durable events and pieces of replies to listeners in this process; nothing flows back to the run.

A listener that joins while a reply is being written asks for what is written so far: its pieces would begin mid-word.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Protocol

from teamwright.values.events.event import AnyDelta, Event

Listener = Callable[[Event | AnyDelta], None]


class OpenPart(Protocol):
    """A part of a response that is being written."""

    def written(self) -> AnyDelta | None:
        """Return all of it so far as one piece, which begins the part; `None` if there is nothing yet."""
        ...


class Bus:
    """Passes each event to the listeners of its run, and to those of all runs.

    A listener must return at once and cannot change anything.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._by_run: dict[str, list[Listener]] = {}
        self._event_listeners: list[Listener] = []
        self._open: dict[str, dict[OpenPart, None]] = {}

    @contextmanager
    def listening(self, listener: Listener, run_id: str | None = None) -> Generator[None]:
        """Register a listener, of one run or of all, for the duration of the block."""
        listeners = self._listeners if run_id is None else self._by_run.setdefault(run_id, [])
        listeners.append(listener)
        try:
            yield
        finally:
            listeners.remove(listener)
            if run_id is not None and not listeners and self._by_run.get(run_id) is listeners:
                del self._by_run[run_id]

    @contextmanager
    def observing(self, listener: Listener) -> Generator[None]:
        """Register a listener of events alone, of all runs, for the duration of the block: no model streams for it."""
        self._event_listeners.append(listener)
        try:
            yield
        finally:
            self._event_listeners.remove(listener)

    def publish(self, events: Iterable[Event]) -> None:
        """Pass durable events to their listeners."""
        if self._listeners or self._by_run or self._event_listeners:
            for event in events:
                self._pass(event)
                for listener in tuple(self._event_listeners):
                    listener(event)

    def publish_delta(self, delta: AnyDelta) -> None:
        """Pass a piece of a response, while it is being written, to its listeners."""
        self._pass(delta)

    def open_part(self, run_id: str, part: OpenPart) -> None:
        """Remember a part that is being written, until it is closed."""
        self._open.setdefault(run_id, {})[part] = None

    def close_part(self, run_id: str, part: OpenPart) -> None:
        """Forget a part: its response is complete and about to be recorded, or it has failed."""
        if (parts := self._open.get(run_id)) is not None:
            parts.pop(part, None)
            if not parts:
                del self._open[run_id]

    def written(self, run_id: str) -> list[AnyDelta]:
        """Return what is being written in a run, each part as one piece; pieces that follow continue it."""
        return [piece for part in self._open.get(run_id, ()) if (piece := part.written()) is not None]

    def is_followed(self, run_id: str) -> bool:
        """Whether anyone listens to a run."""
        return bool(self._listeners) or run_id in self._by_run

    def _pass(self, item: Event | AnyDelta) -> None:
        for listener in (*self._listeners, *self._by_run.get(item.run_id, ())):
            listener(item)
