"""What a replay has to deliver, in journal order: endings of asks, answers of people, timers and expired scopes.

An ask whose ending is recorded stands for everything inside it, so its ending removes what was inside.
"""

from __future__ import annotations

from collections import defaultdict

from teamwright.values.events.event import Event
from teamwright.values.key import parent_key


class RecordedDeliveries:
    """The keys for which something is to be delivered, and the event that brought each."""

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
        """Deliver an event at a key, after all that was added before."""
        scope = event.scope
        self._due[key] = scope
        self.arrivals[key] = event
        self._inside[scope].append(key)
        while scope and scope not in self._linked:
            self._linked.add(scope)
            inner, scope = scope, parent_key(scope)
            self._inside[scope].append(inner)

    def remove_inside(self, scope: str) -> None:
        """Deliver nothing that lies inside a scope."""
        self._linked.discard(scope)
        for key in self._inside.pop(scope, ()):
            self._due.pop(key, None)
            self.remove_inside(key)
