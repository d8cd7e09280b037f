"""Publishes durable events and pieces of replies to listeners in this process; nothing flows back to the run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from teamwright.values.events.event import AnyDelta, Event

Listener = Callable[[Event | AnyDelta], None]


class Bus:
    """Passes each event to every listener. A listener must return at once and cannot change anything."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    @contextmanager
    def listening(self, listener: Listener) -> Generator[None]:
        """Register a listener for the duration of the block."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def publish(self, events: Iterable[Event]) -> None:
        """Pass durable events to every listener."""
        if self._listeners:
            for event in events:
                for listener in tuple(self._listeners):
                    listener(event)

    def publish_delta(self, delta: AnyDelta) -> None:
        """Pass a piece of a response, while it is being written, to every listener."""
        for listener in tuple(self._listeners):
            listener(delta)

    @property
    def has_listeners(self) -> bool:
        """Whether there are any listeners."""
        return bool(self._listeners)
