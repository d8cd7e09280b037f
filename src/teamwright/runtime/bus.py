"""The present of a run: events once they are durable, and pieces of replies. Read only; nothing flows back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from teamwright.values.events.event import Delta, Event

Listener = Callable[[Event | Delta], None]


class Bus:
    """Hands each event to whoever listens. A listener must return at once and can't change anything."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    @contextmanager
    def listening(self, listener: Listener) -> Generator[None]:
        """Listen for the time of the block."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def publish(self, events: Iterable[Event]) -> None:
        """Tell everyone about events that are durable."""
        if self._listeners:
            for event in events:
                for listener in tuple(self._listeners):
                    listener(event)

    def show(self, delta: Delta) -> None:
        """Show a piece of a reply that is being written."""
        for listener in tuple(self._listeners):
            listener(delta)

    @property
    def watched(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)
