"""What a replay delivers, in journal order: endings of asks, answers of people, timers and expired scopes.

The recorded ending of an ask stands for everything inside the ask, so it removes the deliveries inside.
"""

from __future__ import annotations

from collections import defaultdict

from teamwright.values.events.event import Event
from teamwright.values.key import parent_key


class RecordedDeliveries:
    """The keys to which a replay delivers, each with the event to deliver."""

    __slots__ = ("_due", "_inside", "_linked", "arrivals")

    def __init__(self) -> None:
        self.arrivals: dict[str, Event] = {}
        self._due: dict[str, str] = {}
        self._linked: set[str] = set()
        self._inside: defaultdict[str, list[str]] = defaultdict(list)

    @property
    def due(self) -> list[str]:
        """The keys, in journal order."""
        return list(self._due)

    def __contains__(self, key: str) -> bool:
        return key in self._due

    def add(self, event: Event, key: str) -> None:
        """Append the delivery of an event to a key."""
        scope = event.scope
        self._due[key] = scope
        self.arrivals[key] = event
        self._inside[scope].append(key)
        while scope and scope not in self._linked:
            self._linked.add(scope)
            inner, scope = scope, parent_key(scope)
            self._inside[scope].append(inner)

    def remove_inside(self, scope: str) -> None:
        """Remove all deliveries inside a scope."""
        self._linked.discard(scope)
        for key in self._inside.pop(scope, ()):
            self._due.pop(key, None)
            self.remove_inside(key)
