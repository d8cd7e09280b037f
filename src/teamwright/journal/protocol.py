"""The contract of a journal. The driver of a run appends its events; other processes read, or send to its inbox."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from msgspec import Struct

from teamwright.journal.budgets import BudgetClaim
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.people.interventions import Intervention
from teamwright.values.results import RunSummary


class Batch(Struct, frozen=True):
    """The content of one commit: one or more events of a run in order, and the new bodies that they refer to.

    A body is JSON text, identified by its content hash. `alone` says that the run can do nothing else until this batch
    is durable. Events of a fork also refer to bodies of the run `source`. If that run no longer exists, the batch fails
    with `JournalCorrupt`; once the batch is durable, deleting `source` keeps these bodies. The run reserves `claim` in
    the same commit; without room for it the batch fails with `BudgetUnavailable`. Only a journal that keeps budgets
    gets batches with a claim.
    """

    events: Sequence[Event]
    bodies: Mapping[Body, str]
    alone: bool = False
    source: str | None = None
    claim: BudgetClaim | None = None

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
"""Called in the event loop's thread when a batch is durable, or with the error that prevented it."""


class JournalWriter(Protocol):
    """The part that the driver of a run uses.

    `append` never waits. Batches become durable atomically and in the given order; then `done` is called. A batch with
    an event whose (run, number) exists already fails with `FencedOut`. After a failed batch, further batches of the run
    fail with the same error until the driver lock is acquired again. A body is stored once, however many events refer
    to it.
    """

    @property
    def instant(self) -> bool:
        """Whether a batch is already committed when `append` returns."""
        ...

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Wait for pending commits, then release all resources."""
        ...

    def append(self, batch: Batch, done: Committed) -> None: ...

    def drive(self, run_id: str) -> AbstractAsyncContextManager[None]:
        """Hold the run's driver lock for the length of an `async with` block.

        Entering never waits for another holder: it raises `RunIsLive`. The lock is released when its process ends, even
        by a crash. The block may be entered in one task and left in another, so no cancel scope may span it.
        """
        ...

    async def is_driven(self, run_id: str) -> bool:
        """Whether any process holds the run's driver lock now."""
        ...


class JournalReader(Protocol):
    """The part that all processes use: reads durable data."""

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        """Return the run's events with a number above `after`, in order, except the kinds in `without`."""
        ...

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """Return the JSON text of each body."""
        ...

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        """Return the summaries of all runs, or of the `limit` newest, newest first.

        With `conversation`, only the turns of that conversation; an empty name stands for all conversations.
        """
        ...

    async def find(self, run_id: str) -> RunSummary | None: ...

    async def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs and the bodies that only they refer to; return the number of bytes freed.

        Unknown ids are skipped. If one of the runs is driven, nothing is deleted: it raises `RunIsLive`.
        """
        ...


class JournalInbox(Protocol):
    """Interventions that other processes send to a run. Only the driver of the run acts on them."""

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Add an intervention to a run's inbox, from any process."""
        ...

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        """Return the run's inbox items with an id above `after`, in order."""
        ...

    async def changed(self, every: float) -> None:
        """Wait until an inbox may have changed. A journal that is not notified of changes polls at this interval."""
        ...


class Journal(JournalWriter, JournalReader, JournalInbox, Protocol):
    """Durable storage of runs."""


_METHODS = tuple(
    name for part in (JournalWriter, JournalReader, JournalInbox) for name in vars(part) if not name.startswith("_")
)
_FORMER_NAMES = {"inbox": "letters", "changed": "news"}


def missing_members(journal: object) -> list[str]:
    """Return the names of `Journal` methods and attributes that an object lacks."""
    missing: list[str] = []
    for name in _METHODS:
        if hasattr(journal, name):
            continue
        former = _FORMER_NAMES.get(name)
        renamed = former is not None and hasattr(journal, former)
        missing.append(f"{name} (which was named {former} before)" if renamed else name)
    return missing
