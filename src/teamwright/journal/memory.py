"""A journal in memory: for tests, the lab and throw-away runs. It starts no thread, and keeps events as they are."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter

from teamwright.errors import FencedOut, JournalError, RunIsLive
from teamwright.journal.protocol import Batch, Committed, Letter
from teamwright.journal.refusals import fenced_out, missing_bodies
from teamwright.journal.rows import references, to_text
from teamwright.journal.summaries import Standing
from teamwright.values.events import Body, Event
from teamwright.values.people import Intervention
from teamwright.values.results import RunSummary

_number = attrgetter("number")


class MemoryJournal:
    """Keeps runs as long as it lives; every batch is committed at once."""

    instant = True

    def __init__(self) -> None:
        self._logs: dict[str, list[Event]] = {}
        self._bodies: dict[Body, str] = {}
        self._inbox: list[Letter] = []
        self._sent = 0
        self._driven: set[str] = set()
        self._failed: dict[str, JournalError] = {}
        self._listeners: set[asyncio.Future[None]] = set()

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def append(self, batch: Batch, done: Committed) -> None:
        """Keep the batch, whole or not at all."""
        events = batch.events
        if self._failed or not self._continues(events):
            done(self._add_with_care(batch))
            return
        if events:
            self._logs.setdefault(events[0].run_id, []).extend(events)
        self._bodies.update(batch.bodies)
        done(None)

    def _continues(self, events: Sequence[Event]) -> bool:
        """Whether the events simply go on where their one run stands, as a driver's do."""
        if not events:
            return True
        run_id = events[0].run_id
        log = self._logs.get(run_id)
        last = log[-1].number if log else -1
        for event in events:
            if event.number <= last or event.run_id != run_id:
                return False
            last = event.number
        return True

    def _add_with_care(self, batch: Batch) -> JournalError | None:
        """Add a batch that is not simply the continuation of one run."""
        added: dict[str, dict[int, Event]] = {}
        for event in batch.events:
            known = added.setdefault(event.run_id, {one.number: one for one in self._logs.get(event.run_id, ())})
            failure = self._failed.get(event.run_id)
            if failure is None and event.number in known:
                failure = self._refuse(batch, fenced_out(event.run_id))
            if failure is not None:
                return failure
            known[event.number] = event
        for run_id, known in added.items():
            self._logs[run_id] = sorted(known.values(), key=_number)
        self._bodies.update(batch.bodies)
        return None

    def _refuse(self, batch: Batch, failure: FencedOut) -> FencedOut:
        """From here on nothing is taken for the runs of a refused batch, until they are driven anew."""
        self._failed |= dict.fromkeys({event.run_id for event in batch.events}, failure)
        return failure

    @contextmanager
    def drive(self, run_id: str) -> Generator[None]:
        """Hold the run's driver lock."""
        if run_id in self._driven:
            raise RunIsLive(run_id)
        self._driven.add(run_id)
        self._failed.pop(run_id, None)
        try:
            yield
        finally:
            self._driven.discard(run_id)

    def is_driven(self, run_id: str) -> bool:
        """Whether somebody holds the run's driver lock right now."""
        return run_id in self._driven

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        """The run's events with a number above `after`, in order, but for the kinds `without`."""
        log = self._logs.get(run_id, [])
        found = log[bisect_right(log, after, key=_number) :]
        if without:
            found = [event for event in found if event.fact.kind not in without]
        return found[:limit]

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """The JSON text of each body."""
        found = {one: self._bodies[one] for one in hashes if one in self._bodies}
        if len(found) < len(set(hashes)):
            raise missing_bodies(set(hashes) - found.keys())
        return found

    async def runs(self, limit: int | None = None) -> list[RunSummary]:
        """All runs, newest first."""
        return [self._summary(run_id) for run_id in list(reversed(self._logs))[:limit]]

    async def find(self, run_id: str) -> RunSummary | None:
        """One run's summary."""
        return self._summary(run_id) if run_id in self._logs else None

    def _summary(self, run_id: str) -> RunSummary:
        standing = Standing()
        standing.take_all(self._logs[run_id])
        return standing.summary(run_id, driven=run_id in self._driven)

    async def delete(self, run_ids: Collection[str]) -> int:
        """Forget runs and the bodies that only they refer to."""
        for run_id in run_ids:
            if run_id in self._driven:
                raise RunIsLive(run_id)
        gone = [self._logs.pop(run_id) for run_id in set(run_ids) if run_id in self._logs]
        self._inbox = [letter for letter in self._inbox if letter.run_id not in run_ids]
        left = references(_texts(self._logs.values()))
        unused = references(_texts(gone)).intersection(self._bodies) - left
        return sum(map(len, _texts(gone))) + sum(len(self._bodies.pop(one)) for one in unused)

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Put something into a run's inbox."""
        self._sent += 1
        self._inbox.append(Letter(self._sent, run_id, intervention))
        for listener in self._listeners:
            if not listener.done():
                listener.set_result(None)

    async def letters(self, run_id: str, after: int = 0) -> list[Letter]:
        """What lies in the inbox, with an id above `after`."""
        return [letter for letter in self._inbox if letter.run_id == run_id and letter.id > after]

    async def news(self, every: float) -> None:
        """Wait until something is sent; nobody can do that unseen, so time does not matter."""
        listener: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners.add(listener)
        try:
            await listener
        finally:
            self._listeners.discard(listener)


def _texts(logs: Iterable[Iterable[Event]]) -> Iterator[str]:
    return (to_text(event.fact) for log in logs for event in log)
