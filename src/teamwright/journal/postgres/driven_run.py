"""What the driver session knows of a run: its last saved status, the events since, and the bodies it refers to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from teamwright.journal.protocol import Batch
from teamwright.journal.run_status import STATUS_FACTS, RunStatus
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold

UNSAVED = 250
"""The most events since a run's status was saved; readers fold these to get its current status."""
KNOWN_BODIES = 10_000
"""The most bodies that are remembered as referred to; a reference that is stored twice does no harm."""


@dataclass(slots=True)
class DrivenRun:
    """The state of one run in the database, as of its last commit."""

    status: RunStatus
    unsaved: list[Event]
    is_new: bool = False
    bodies: set[Body] = field(default_factory=set[Body])

    def is_due(self, events: Sequence[Event]) -> bool:
        """Whether to save the run's status with these events: when it changes, and after many events."""
        if self.is_new or len(self.unsaved) >= UNSAVED:
            return True
        return any(event.fact.__class__ in STATUS_FACTS for event in events)

    def add(self, batch: Batch, used: set[Body]) -> None:
        """Take in a batch that is being committed."""
        self.unsaved += batch.events
        if len(self.bodies) + len(used) > KNOWN_BODIES:
            self.bodies.clear()
        self.bodies |= used

    def save(self) -> RunStatus:
        """Return the status after all events, which is being saved."""
        fold(self.unsaved, self.status)
        self.unsaved, self.is_new = [], False
        return self.status
