"""An event loop that a test advances by hand, and journals for it."""

from __future__ import annotations

import asyncio
import selectors
import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import TypeVar

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.journal.sqlite.queries import read_events
from teamwright.values.events.event import Event
from teamwright.values.people import Intervention

T = TypeVar("T")

POLL_SECONDS = 0.002
"""Seconds between polls while a journal thread is at work."""


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop that stops when every task waits; its time advances only in `wait`."""

    def __init__(self) -> None:
        self._passed = 0.0
        self.busy: Callable[[], bool] = lambda: False
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._passed

    def settle(self) -> None:
        """Run until every task waits for something external."""
        self.run_forever()

    def wait(self, seconds: float) -> None:
        """Advance time, from one timer to the next."""
        end = self._passed + seconds
        self.settle()
        while (when := self._next_timer()) is not None and when <= end:
            self._passed = max(self._passed, when)
            self.settle()
        self._passed = end
        self.settle()

    def _next_timer(self) -> float | None:
        timers: list[asyncio.TimerHandle] = self._scheduled  # pyright: ignore[reportAttributeAccessIssue]
        return min((timer.when() for timer in timers if not timer.cancelled()), default=None)


class _Selector(selectors.DefaultSelector):
    """Stops its loop instead of sleeping."""

    def __init__(self, loop: ManualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        busy = self._loop.busy()
        found = super().select(POLL_SECONDS if busy else 0)
        if not found and not busy:
            self._loop.stop()
        return found


class DelayedMemoryJournal(MemoryJournal):
    """Commits batches one by one, each after a number of loop iterations; can be copied as a crash leaves it."""

    instant = False

    def __init__(self, hops: int) -> None:
        super().__init__()
        self._hops = hops
        self._queue: deque[tuple[Batch, Committed]] = deque()
        self._sent_at: dict[int, int] = {}
        self._commit_numbers: dict[str, list[int]] = {}

    def append(self, batch: Batch, done: Committed) -> None:
        self._queue.append((batch, done))
        if len(self._queue) == 1:
            asyncio.get_running_loop().call_soon(self._work, self._hops)

    def _work(self, left: int) -> None:
        if left:
            asyncio.get_running_loop().call_soon(self._work, left - 1)
            return
        batch, done = self._queue[0]
        if batch.events:
            self._commit_numbers.setdefault(batch.events[0].run_id, []).append(batch.events[-1].number)
        super().append(batch, done)
        self._queue.popleft()
        if self._queue:
            asyncio.get_running_loop().call_soon(self._work, self._hops)

    async def send(self, run_id: str, intervention: Intervention) -> None:
        await super().send(run_id, intervention)
        self._sent_at[self._sent] = len(self._logs.get(run_id, ()))

    def commit_numbers(self, run_id: str) -> list[int]:
        """The last event number of each commit: where a crash may cut the record."""
        return self._commit_numbers.get(run_id, [])

    def crash_copy(self, run_id: str, commit_number: int, *, inbox: bool = True) -> DelayedMemoryJournal:
        """Copy the journal as a crash after this event leaves it, with or without its inbox."""
        made = DelayedMemoryJournal(self._hops)
        made._logs = {one: list(log) for one, log in self._logs.items()}
        made._commit_numbers = {one: list(numbers) for one, numbers in self._commit_numbers.items()}
        made._logs[run_id] = [event for event in self._logs.get(run_id, ()) if event.number <= commit_number]
        made._commit_numbers[run_id] = [number for number in self.commit_numbers(run_id) if number <= commit_number]
        if not made._logs[run_id]:
            del made._logs[run_id]
        made._bodies = dict(self._bodies)
        made._sent = self._sent
        made._inbox = [one for one in self._inbox if inbox and self._sent_at[one.id] <= commit_number]
        made._sent_at = dict(self._sent_at)
        return made


class WatchedSqliteJournal(SqliteJournal):
    """A SQLite journal that knows whether its threads are at work, and can be copied as a crash leaves it now."""

    def __init__(self, folder: Path, number: int = 1) -> None:
        self._folder, self._count = folder, number
        self._place = folder / f"{number}.db"
        super().__init__(self._place)
        self._queries_in_flight = 0

    def busy(self) -> bool:
        writer = self._running
        return self._queries_in_flight > 0 or (writer is not None and writer._queued != writer._finished)

    async def open(self) -> None:
        self._queries_in_flight += 1
        try:
            await super().open()
        finally:
            self._queries_in_flight -= 1

    async def close(self) -> None:
        self._queries_in_flight += 1
        try:
            await super().close()
        finally:
            self._queries_in_flight -= 1

    async def query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._queries_in_flight += 1
        try:
            return await super().query(work)
        finally:
            self._queries_in_flight -= 1

    def now(self, run_id: str) -> list[Event]:
        """Read the durable events synchronously."""
        with closing(sqlite3.connect(self._place)) as reader:
            found = reader.execute("SELECT place FROM runs WHERE id = ?", (run_id,)).fetchone()
            return [] if found is None else read_events(reader, run_id, found[0], 0)

    def commit_numbers(self, run_id: str) -> list[int]:
        """The last durable event, because only the current state can be copied."""
        return [event.number for event in self.now(run_id)[-1:]]

    def crash_copy(self, run_id: str, commit_number: int) -> WatchedSqliteJournal:
        """Copy the database files as they are now."""
        made = WatchedSqliteJournal(self._folder, self._count + 1)
        for ending in ("", "-wal"):
            part = self._place.with_name(self._place.name + ending)
            if part.exists():
                copyfile(part, made._place.with_name(made._place.name + ending))
        return made


ManualJournal = DelayedMemoryJournal | WatchedSqliteJournal
