"""Publishes durable events and pieces of replies to listeners in this process; nothing flows back to the run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from teamwright.values.events.event import AnyDelta, Event

Listener = Callable[[Event | AnyDelta], None]


class Bus:
    """Passes each event to the listeners of its run, and to those of all runs.

    A listener must return at once and cannot change anything.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._by_run: dict[str, list[Listener]] = {}
        self._event_listeners: list[Listener] = []

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

    def is_followed(self, run_id: str) -> bool:
        """Whether anyone listens to a run."""
        return bool(self._listeners) or run_id in self._by_run

    def _pass(self, item: Event | AnyDelta) -> None:
        for listener in (*self._listeners, *self._by_run.get(item.run_id, ())):
            listener(item)
