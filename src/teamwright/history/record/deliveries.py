"""What a replay delivers, in journal order: endings of asks, answers, timers, interventions and shared values.

The recorded ending of an ask stands for everything inside the ask, so it removes the deliveries inside. A reader of
shared values reads as of an event number, never "now", so that a run and its replay see the same version.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from pydantic import JsonValue

from teamwright.history.record.asks import RecordedBodies
from teamwright.values.events.agent import Body, WorkspaceKept, WorkspacePatched, WorkspaceWritten
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunApplied, RunIntervened, RunRefused, RunStarted
from teamwright.values.key import parent_key
from teamwright.values.people import PauseMember, ResumeMember, Steer, StopStep
from teamwright.values.turns.artifacts import SharedValue


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
        scope = event.scope
        self._due[key] = scope
        self.arrivals[key] = event
        self._inside[scope].append(key)
        while scope and scope not in self._linked:
            self._linked.add(scope)
            inner, scope = scope, parent_key(scope)
            self._inside[scope].append(inner)

    def remove_inside(self, scope: str) -> None:
        self._linked.discard(scope)
        for key in self._inside.pop(scope, ()):
            self._due.pop(key, None)
            self.remove_inside(key)


TOO_LATE = "the run ended before it took effect"
"""The reason with which an accepted intervention is refused in the end."""


class RecordedInterventions:
    """The accepted interventions by their ids, the places where they took effect, and the members that are paused.

    A fork inherits the places, and with them what was said to its members. It inherits no acceptance: an intervention
    belongs to the run that it was sent to.
    """

    __slots__ = ("_pauses", "accepted", "accepted_at", "effective", "paused", "places", "refused", "stops")

    def __init__(self) -> None:
        self.accepted: dict[int, Steer] = {}
        self.accepted_at: dict[int, int] = {}
        """The numbers of the events with which they were accepted."""
        self.effective: set[int] = set()
        """The inbox ids of accepted interventions that have taken effect somewhere."""
        self.places: defaultdict[str, list[RunApplied]] = defaultdict(list)
        self.refused: set[str] = set()
        """The keys before which a strategy refused a change."""
        self.paused: dict[str, int] = {}
        """The paused members, each with the id of its pause in the inbox."""
        self._pauses: dict[str, str] = {}
        self.stops: dict[str, StopStep] = {}
        """The steps that were stopped, each by the key at which a replay stops it again."""

    def __bool__(self) -> bool:
        return bool(self.accepted or self.places)

    def refusals(self) -> list[RunRefused]:
        """Return, for a run that ends, that what was accepted and took no effect never will."""
        left = {inbox_id: steer for inbox_id, steer in self.accepted.items() if inbox_id not in self.effective}
        return [RunRefused(intervention=steer, inbox_id=inbox_id, reason=TOO_LATE) for inbox_id, steer in left.items()]

    def accept(self, number: int, fact: RunIntervened) -> None:
        steer = fact.intervention
        if not isinstance(steer, Steer):
            return
        self.accepted[fact.inbox_id], self.accepted_at[fact.inbox_id] = steer, number
        if isinstance(steer, PauseMember):
            self.paused[steer.member] = fact.inbox_id
        elif isinstance(steer, ResumeMember):
            self.paused.pop(steer.member, None)

    def apply(self, key: str, fact: RunApplied, *, inherited: bool) -> None:
        self.places[key].append(fact)
        if not inherited:
            self.effective.add(fact.inbox_id)

    def stop_at(self, number: int, stop: StopStep) -> str:
        """Note that the event with this number stopped a step; return the key at which a replay does so again."""
        key = f"!stop-{number}"
        self.stops[key] = stop
        return key

    def refuse(self, key: str, inbox_id: int) -> None:
        """Note that an accepted intervention was refused at a key, so that it takes no effect any more."""
        self.refused.add(key)
        self.effective.add(inbox_id)

    def pause_at(self, key: str, member: str) -> None:
        """Note that a member waits at a key until it is resumed."""
        self._pauses[key] = member

    def resume_at(self, key: str) -> None:
        """End the pause of the member that waited at this key, if one did."""
        if (member := self._pauses.pop(key, None)) is not None:
            self.paused.pop(member, None)


LATEST = float("inf")
"""After every event."""


class _Version(NamedTuple):
    number: int
    held: SharedValue


class Store:
    """Values by name, multi-version. Versions count from one; each has the number of the event that wrote it."""

    def __init__(self) -> None:
        self._values: dict[str, list[_Version]] = {}

    def write(self, name: str, value: JsonValue, *, by: str, number: int) -> int:
        """Add a version and return its count; event numbers only grow."""
        versions = self._values.setdefault(name, [])
        versions.append(_Version(number, SharedValue(value=value, version=len(versions) + 1, by=by)))
        return len(versions)

    def get(self, name: str, at: float = LATEST) -> SharedValue | None:
        """The value as of the event with this number; None where it did not exist."""
        versions = self._values.get(name, ())
        index = bisect_right(versions, at, key=attrgetter("number"))
        return versions[index - 1].held if index else None

    def names(self, at: float = LATEST) -> list[str]:
        """The names that existed as of this event, sorted."""
        return sorted(name for name, versions in self._values.items() if versions[0].number <= at)


class RecordedWorkspace:
    """What members have shared: writes by key, the artifacts that members may open, and those that members kept."""

    __slots__ = ("artifacts", "kept", "patched", "writes")

    def __init__(self) -> None:
        self.writes: dict[str, Event] = {}
        self.artifacts: set[Body] = set()
        self.kept: list[WorkspaceKept] = []
        self.patched: list[tuple[int, WorkspacePatched]] = []
        """The changes that were applied to the team's branch, with the numbers of their events."""

    def apply(self, event: Event) -> None:
        if isinstance(fact := event.fact, WorkspaceKept):
            self.artifacts.add(fact.artifact.hash)
            self.kept.append(fact)
        elif isinstance(fact, WorkspacePatched):
            self.patched.append((event.number, fact))
        else:
            self.writes[event.key] = event

    def add_attachments(self, fact: RunStarted) -> None:
        """Let members open the files of the task, and of earlier tasks in the conversation that the run continues."""
        self.artifacts.update(one.hash for one in fact.attachments)
        self.artifacts.update(one.hash for ref in fact.history for one in ref.attachments)
        if fact.placed is not None:
            self.artifacts.update(fact.placed.artifacts)

    def bodies(self) -> Iterator[Body]:
        return (event.fact.body for event in self.writes.values() if isinstance(event.fact, WorkspaceWritten))

    def store(self, bodies: RecordedBodies) -> Store:
        """Return the values as of the last event."""
        store = Store()
        for event in self.writes.values():
            if isinstance(fact := event.fact, WorkspaceWritten):
                store.write(fact.name, bodies.value(fact.body), by=fact.by, number=event.number)
        return store
