"""What a journal must do. A run's one driver appends its events; all others read, or write to its inbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.people.interventions import Intervention
from teamwright.values.results import RunSummary


class Batch(Struct, frozen=True):
    """What one commit adds: one or more events of a run in order, and new bodies they refer to.

    A body is JSON text by its content hash. `alone` says that its run has nothing else to do until this is durable.
    Events of a fork also refer to bodies that came with the run `source`: if it is deleted by then, the batch is
    refused with `JournalCorrupt`, and once the batch is durable these bodies stay.
    """

    events: Sequence[Event]
    bodies: Mapping[Body, str]
    alone: bool = False
    source: str | None = None

    @property
    def run_id(self) -> str:
        return self.events[0].run_id


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One intervention in a run's inbox. Ids grow in the order of sending."""

    id: int
    run_id: str
    intervention: Intervention


Committed = Callable[[BaseException | None], None]
"""Called in the event loop's thread once a batch is durable, or with the reason why it is not."""


class Writing(Protocol):
    """The driver's side.

    `append` never waits; batches become durable in the order given, each whole or not at all, and `done` is called
    after that. An event whose (run, number) exists already is `FencedOut`, and nothing of its batch is kept. After a
    batch that failed, its run is refused with the same error until it is driven anew. A body is stored once however
    often it is referred to.
    """

    @property
    def instant(self) -> bool:
        """Whether a batch is durable, as far as it ever is, when `append` returns."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Wait for what is under way, then let go of everything."""
        ...

    def append(self, batch: Batch, done: Committed) -> None: ...

    def drive(self, run_id: str) -> AbstractAsyncContextManager[None]:
        """Hold the run's driver lock for the length of an `async with` block.

        Entering never waits for another holder: it raises `RunIsLive`. The lock ends with its process in any case. The
        block may be entered in one task and left in another, so no cancel scope or timeout may span it.
        """
        ...

    async def is_driven(self, run_id: str) -> bool:
        """Whether any process holds the run's driver lock now."""
        ...


class Reading(Protocol):
    """Everybody's side: sees what is durable, from any process."""

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        """The run's events with a number above `after`, in order, but for the kinds `without`."""
        ...

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """The JSON text of each body."""
        ...

    async def runs(self, limit: int | None = None) -> list[RunSummary]:
        """All runs, newest first."""
        ...

    async def find(self, run_id: str) -> RunSummary | None: ...

    async def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs with all that only they refer to, give the space back, and return how many bytes were freed."""
        ...


class Inbox(Protocol):
    """What others send to a run. Only the run's driver acts on it."""

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Add an intervention to a run's inbox; any process may."""
        ...

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        """Return the run's inbox items with an id above `after`, in order."""
        ...

    async def changed(self, every: float) -> None:
        """Wait until an inbox may have changed. A journal that is not notified of changes polls at this interval."""
        ...


class Journal(Writing, Reading, Inbox, Protocol):
    """Durable storage of runs."""


_METHODS = tuple(name for part in (Writing, Reading, Inbox) for name in vars(part) if not name.startswith("_"))
_FORMER_NAMES = {"inbox": "letters", "changed": "news"}


def missing_members(journal: object) -> list[str]:
    """Name the methods and attributes of the `Journal` contract that an object lacks."""
    missing: list[str] = []
    for name in _METHODS:
        if hasattr(journal, name):
            continue
        former = _FORMER_NAMES.get(name)
        renamed = former is not None and hasattr(journal, former)
        missing.append(f"{name} (which was named {former} before)" if renamed else name)
    return missing
