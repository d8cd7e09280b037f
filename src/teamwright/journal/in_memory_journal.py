"""A journal in memory, for tests, simulations and temporary runs. It starts no thread and encodes nothing."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import islice
from operator import attrgetter

from teamwright.errors import JournalError, RunIsLive
from teamwright.journal.agent_notes import Note, rank_notes
from teamwright.journal.codec import references, to_text
from teamwright.journal.protocol import (
    Batch,
    Committed,
    InboxItem,
    Journal,
    RunStatus,
    fenced_out,
    missing_bodies,
    missing_source,
)
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event, fold
from teamwright.values.people import Intervention
from teamwright.values.turns.results import RunSummary

_number = attrgetter("number")


class MemoryJournal(Journal):
    """Keeps runs for its own lifetime; every batch is committed at once."""

    instant = True

    def __init__(self) -> None:
        self._logs: dict[str, list[Event]] = {}
        self._bodies: dict[Body, str] = {}
        self._inbox: list[InboxItem] = []
        self._sent = 0
        self._driven: set[str] = set()
        self._failed: dict[str, JournalError] = {}
        self._notes = MemoryNotes()
        self._token_rates = MemoryTokenRates()
        self._listeners: set[asyncio.Future[None]] = set()

    @property
    def notes(self) -> MemoryNotes:
        return self._notes

    @property
    def token_rates(self) -> MemoryTokenRates:
        return self._token_rates

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def append(self, batch: Batch, done: Committed) -> None:
        done(self._add(batch))

    def _add(self, batch: Batch) -> JournalError | None:
        """Add a batch. After a failed batch, its run accepts no other until its driver lock is acquired again."""
        run_id = batch.events[0].run_id
        if self._failed and run_id in self._failed:
            return self._failed[run_id]
        if batch.source is not None and batch.source not in self._logs:
            return self._failed.setdefault(run_id, missing_source(batch.source))
        log = self._logs.get(run_id)
        last = log[-1].number if log else -1
        for event in batch.events:
            if event.number <= last:
                return self._insert(batch, log or [])
            last = event.number
        if log is None:
            log = self._logs[run_id] = []
        log += batch.events
        self._bodies.update(batch.bodies)
        return None

    def _insert(self, batch: Batch, log: list[Event]) -> JournalError | None:
        """Add events that do not simply follow the last one."""
        known = {event.number: event for event in (*log, *batch.events)}
        if len(known) < len(log) + len(batch.events):
            return self._failed.setdefault(batch.run_id, fenced_out(batch.run_id))
        self._logs[batch.run_id] = sorted(known.values(), key=_number)
        self._bodies.update(batch.bodies)
        return None

    @asynccontextmanager
    async def drive(self, run_id: str) -> AsyncGenerator[None]:
        if run_id in self._driven:
            raise RunIsLive(run_id)
        self._driven.add(run_id)
        self._failed.pop(run_id, None)
        try:
            yield
        finally:
            self._driven.discard(run_id)

    async def is_driven(self, run_id: str) -> bool:
        return run_id in self._driven

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        log = self._logs.get(run_id, [])
        found = log[bisect_right(log, after, key=_number) :]
        if without:
            found = [event for event in found if event.fact.kind not in without]
        return found[:limit]

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        found = {one: self._bodies[one] for one in hashes if one in self._bodies}
        if len(found) < len(set(hashes)):
            raise missing_bodies(set(hashes) - found.keys())
        return found

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        """Return the summaries of all runs, or of the turns of a conversation, newest first."""
        if conversation is None:
            return [self._summary(run_id) for run_id in list(reversed(self._logs))[:limit]]
        every = (self._summary(run_id) for run_id in reversed(self._logs))
        turns = (one for one in every if one.conversation and one.conversation == (conversation or one.conversation))
        return list(islice(turns, limit))

    async def find(self, run_id: str) -> RunSummary | None:
        """Return the summary of a run, or None."""
        return self._summary(run_id) if run_id in self._logs else None

    def _summary(self, run_id: str) -> RunSummary:
        status = fold(self._logs[run_id], RunStatus())
        return status.summary(run_id, driven=run_id in self._driven)

    async def delete(self, run_ids: Collection[str]) -> int:
        for run_id in run_ids:
            if run_id in self._driven:
                raise RunIsLive(run_id)
        gone = [self._logs.pop(run_id) for run_id in set(run_ids) if run_id in self._logs]
        self._inbox = [item for item in self._inbox if item.run_id not in run_ids]
        unused = _references(gone).intersection(self._bodies) - _references(self._logs.values())
        return sum(map(len, _texts(gone))) + sum(len(self._bodies.pop(one)) for one in unused)

    async def send(self, run_id: str, intervention: Intervention) -> None:
        self._sent += 1
        self._inbox.append(InboxItem(self._sent, run_id, intervention))
        for listener in self._listeners:
            if not listener.done():
                listener.set_result(None)

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        return [item for item in self._inbox if item.run_id == run_id and item.id > after]

    async def changed(self, every: float) -> None:
        """Wait until something is sent. Every sender is in this process, so no polling is needed."""
        listener: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._listeners.add(listener)
        try:
            await listener
        finally:
            self._listeners.discard(listener)


def _references(logs: Iterable[Iterable[Event]]) -> set[Body]:
    return {body for text in _texts(logs) for body in references(text)}


def _texts(logs: Iterable[Iterable[Event]]) -> Iterator[str]:
    return (to_text(event.fact) for log in logs for event in log)


class MemoryNotes:
    """Notes in memory, for as long as their journal exists."""

    def __init__(self) -> None:
        self._notes: dict[int, Note] = {}
        self._added: dict[str, int] = {}
        self._forgotten: set[tuple[int, str]] = set()
        self._last = 0

    async def add(self, note: Note, *, key: str, most: int) -> Note | None:
        if key in self._added:
            return replace(note, id=self._added[key])
        held = [one for one in self._notes.values() if one.memory == note.memory]
        for one in held:
            if one.text == note.text:
                return one
        if len(held) >= most:
            return None
        self._last += 1
        self._added[key] = self._last
        self._notes[self._last] = added = replace(note, id=self._last)
        return added

    async def search(self, memory: str, words: Sequence[str], limit: int) -> list[Note]:
        """Return the notes that contain most of the words, the newest first among equals."""
        held = [one for one in reversed(self._notes.values()) if one.memory == memory]
        return rank_notes(held, words, limit)

    async def forget(self, memory: str, note: int, *, key: str) -> bool:
        if (note, key) in self._forgotten:
            return True
        if note not in self._notes or self._notes[note].memory != memory:
            return False
        del self._notes[note]
        self._forgotten.add((note, key))
        return True

    async def memories(self) -> dict[str, int]:
        return dict(sorted(Counter(one.memory for one in self._notes.values()).items()))


class MemoryTokenRates:
    """Rates in memory, for as long as their journal exists."""

    def __init__(self) -> None:
        self._saved: dict[str, str] = {}

    async def load(self, model: str) -> str | None:
        return self._saved.get(model)

    async def save(self, model: str, samples: str) -> None:
        self._saved[model] = samples
