"""Commits batches: the writer thread, which batches go together, what a failure means for a run, and the rows written.

A batch that can't be stored fails alone, and further batches of its run fail until its driver lock is acquired again,
so that its record has no gap. The thread makes no decisions: the committer says what a commit and a failure are.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from itertools import chain
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import NamedTuple, TypeVar

import anyio
import anyio.to_thread

from teamwright.errors import JournalError
from teamwright.journal.codec import NUMBERS, join_bodies, pack_body, split_bodies, to_row
from teamwright.journal.protocol import COLUMNS, STATUS_FACTS, Batch, Committed, RunStatus, fenced_out, missing_source
from teamwright.journal.sqlite.database import SINGLE_STATEMENT_ROWS, Column, Database, Insert, is_locked
from teamwright.journal.sqlite.queries import (
    STATUS_COLUMNS,
    is_stored_at,
    read_events,
    read_place,
    read_places,
    read_run,
    transaction,
)
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event, fold

_UNSAVED = 250
"""The most events since a run's status was saved; readers fold these to get its current status."""
_ADD_RUN = "INSERT INTO runs (id, number, team, tokens, seconds) VALUES (?, 0, '', 0, 0)"
_SET_RUN = f"UPDATE runs SET ({STATUS_COLUMNS}) = ({', '.join('?' * len(COLUMNS))}) WHERE place = ?"
_SMALL = 50
"""The most events of a batch that is committed in the thread of the event loop."""
_add_events = Insert("events", 8)
_index_bodies = Insert("bodies", 2, "ON CONFLICT DO NOTHING")
T = TypeVar("T")
Work = Callable[[], None]
QUICK = 0.0005
"""Seconds. When commits take less on average and no other task needs the event loop, a batch is committed in place: two
thread switches would take as long as the commit itself."""
SMOOTHING = 0.1
"""The weight of the last commit in the moving average."""


class Committer:
    """Commits batches to a database, in the writer thread or in that of the event loop, one at a time.

    `driven` are the runs whose driver lock is held here.
    """

    def __init__(self, database: Database, driven: Set[str]) -> None:
        self._database, self._driven = database, driven
        self._failed: dict[str, JournalError] = {}
        self._run_rows: dict[str, RunRows] = {}

    def commit_here(self, batch: Batch) -> Sequence[BaseException | None] | None:
        """Commit a batch in the loop's thread; return `None` where that could block other work."""
        if self._failed or len(self._driven) > 1 or len(batch.events) > _SMALL:
            return None
        if self._database.uses_busy_timeout:
            self._database.use_busy_timeout(False)
        try:
            self.commit((batch,))
        except sqlite3.Error as error:
            return None if is_locked(error) else self.commit_group([batch])
        except (ValueError, OverflowError, JournalError):
            return self.commit_group([batch])
        return (None,)

    def commit_group(self, batches: Sequence[Batch]) -> Sequence[BaseException | None]:
        """Commit a group of batches and return the error of each; a batch that can't be stored fails alone."""
        self._database.use_busy_timeout(True)
        if not any(map(self._refusal, batches)):
            try:
                self.commit(batches)
            except (sqlite3.IntegrityError, ValueError, OverflowError, JournalError):
                pass  # one of the batches is invalid: commit them one by one
            except sqlite3.Error as error:
                return [self._fail(batch, self._database.journal_error(error)) for batch in batches]
            else:
                return [None] * len(batches)
        return [self._commit_alone(batch) for batch in batches]

    def _commit_alone(self, batch: Batch) -> JournalError | None:
        refusal = self._refusal(batch)
        if refusal is not None:
            return refusal
        try:
            self.commit([batch])
        except sqlite3.IntegrityError:
            return self._fail(batch, fenced_out(batch.run_id))
        except (ValueError, OverflowError) as error:
            return self._fail(batch, JournalError(f"The events of run {batch.run_id!r} can't be recorded: {error}"))
        except JournalError as error:
            return self._fail(batch, error)
        except sqlite3.Error as error:
            return self._fail(batch, self._database.journal_error(error))
        return None

    def _fail(self, batch: Batch, failure: JournalError) -> JournalError:
        """Fail further batches of the run until its driver lock is acquired again, so that its record has no gap."""
        self._failed[batch.run_id] = failure
        return failure

    def _refusal(self, batch: Batch) -> JournalError | None:
        return self._database.lost or self._failed.get(batch.run_id)

    def prepare_driving(self, run_id: str) -> None:
        """Accept batches of a run again whose driver lock was just acquired."""
        self._failed.pop(run_id, None)
        self.forget(run_id)
        self._database.preallocate_log()

    def forget(self, run_id: str) -> None:
        """Drop the cache of a run, which another process may drive from now on."""
        self._run_rows.pop(run_id, None)

    def commit(self, batches: Sequence[Batch]) -> None:
        """Commit batches atomically: their events and bodies and, where due, the status of their runs."""
        if len(batches) == 1 and self._add(batches[0]):
            self._database.require_identity(thorough=False)
        else:
            self._write(batches)
            self._database.require_identity()

    def _write(self, batches: Sequence[Batch]) -> None:
        touched: dict[str, RunRows] = {}
        due: set[str] = set()
        try:
            with transaction(self._database.cursor) as cursor:
                columns: list[Column] = []
                for batch in batches:
                    if batch.source is not None and read_place(self._database.writer, batch.source) is None:
                        raise missing_source(batch.source)
                    rows = touched.get(batch.run_id) or touched.setdefault(batch.run_id, self._rows_of(batch.run_id))
                    if rows.is_due(batch.events) or batch.run_id not in self._driven:
                        due.add(batch.run_id)
                    columns += rows.add(batch)
                _add_events(cursor, columns)
                for run_id in due:
                    touched[run_id].save(cursor)
        except BaseException:
            for run_id in touched:
                self._run_rows.pop(run_id, None)
            raise

    def _add(self, batch: Batch) -> bool:
        """Insert a small batch by one statement, without a transaction; return False where that is not possible."""
        rows = self._run_rows.get(batch.run_id)
        if (
            rows is None
            or len(batch.events) > SINGLE_STATEMENT_ROWS
            or batch.source is not None
            or rows.is_due(batch.events)
        ):
            return False
        try:
            _add_events(self._database.cursor, rows.add(batch))
        except BaseException:
            del self._run_rows[batch.run_id]
            raise
        return True

    def _rows_of(self, run_id: str) -> RunRows:
        """The cached rows of a run. A run that is not driven here may change elsewhere, so it is not cached."""
        rows = self._run_rows.get(run_id)
        if rows is None:
            rows = RunRows(self._database.cursor, run_id)
            if run_id in self._driven:
                self._run_rows[run_id] = rows
        return rows


class RunRows:
    """The rows of one run, and the events and bodies since its status was saved."""

    __slots__ = ("_bodies", "_events", "_start", "_status")

    def __init__(self, cursor: sqlite3.Cursor, run_id: str) -> None:
        """Read the run from the database, or insert it, within the caller's transaction."""
        found = read_run(cursor, run_id)
        self._events: list[Event] = []
        self._bodies: dict[Body, int] = {}
        if found is None:
            place, self._status = cursor.execute(_ADD_RUN, (run_id,)).lastrowid or 0, RunStatus()
        else:
            place, self._status = found
            self._events = read_events(cursor, run_id, place, self._status.number)
            self._bodies = read_places(cursor, place, self._status.number)
        self._start = place * NUMBERS

    def add(self, batch: Batch) -> list[Column]:
        events, start = batch.events, self._start
        held = self._pack_new_bodies(batch) if batch.bodies else []
        columns: list[Column] = []
        for index, event in enumerate(events):
            columns += to_row(start + event.number, event, held[index] if index < len(held) else None)
        self._events += events
        return columns

    def _pack_new_bodies(self, batch: Batch) -> list[str]:
        """Pack the new bodies of a batch: one per event, and all remaining ones with the last event."""
        events, known = batch.events, self._bodies
        held: list[str] = []
        for body, text in batch.bodies.items():
            if body not in known:
                event = events[len(held)] if len(held) < len(events) else events[-1]
                known[body] = self._start + event.number
                held.append(pack_body(body, text))
        if len(held) > len(events):
            last = len(events) - 1
            held[last:] = [join_bodies(held[last:])]
        return held

    def is_due(self, events: Sequence[Event]) -> bool:
        """Whether to save the run's status with these events: when it changes, and after many events."""
        if len(self._events) >= _UNSAVED:
            return True
        for event in events:  # noqa: SIM110 - a generator takes longer than most batches
            if event.fact.__class__ in STATUS_FACTS:
                return True
        return False

    def save(self, cursor: sqlite3.Cursor) -> None:
        """Save the run's status and index its bodies, within the caller's transaction."""
        fold(self._events, self._status)
        cursor.execute(_SET_RUN, (*self._status.columns(), self._start // NUMBERS))
        bodies = [(bytes.fromhex(body), position) for body, position in self._bodies.items()]
        if _index_bodies(cursor, list(chain.from_iterable(bodies))) < len(bodies):
            _remove_duplicates(cursor, bodies)
        self._events, self._bodies = [], {}


def _remove_duplicates(cursor: sqlite3.Cursor, bodies: Sequence[tuple[bytes, int]]) -> None:
    """Remove bodies that another row already stores; an index entry that is wrong is corrected instead."""
    doubles: defaultdict[int, list[Body]] = defaultdict(list)
    for one, position in bodies:
        (noted,) = cursor.execute("SELECT position FROM bodies WHERE hash = ?", (one,)).fetchone()
        if noted == position:
            continue
        if is_stored_at(cursor, one.hex(), noted):
            doubles[position].append(one.hex())
        else:
            cursor.execute("UPDATE bodies SET position = ? WHERE hash = ?", (position, one))
    for position, gone in doubles.items():
        (texts,) = cursor.execute("SELECT bodies FROM events WHERE position = ?", (position,)).fetchone()
        left = [pack_body(body, text) for body, text in split_bodies(texts) if body not in gone]
        cursor.execute(
            "UPDATE events SET bodies = ? WHERE position = ?", (join_bodies(left) if left else None, position)
        )


class _QueuedBatch(NamedTuple):
    batch: Batch
    done: Committed


class Writer:
    """One thread and its queue, processed in order."""

    def __init__(self, name: str, committer: Committer) -> None:
        self._queue: SimpleQueue[_QueuedBatch | Work | None] = SimpleQueue()
        self.committer = committer
        self._queued = self._finished = 0
        self._unreported = 0
        """Queued batches whose `done` was not called yet: the thread finishes them before the loop hears of it."""
        self._average = QUICK
        self._loop = asyncio.get_running_loop()
        self._thread = Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def append(self, batch: Batch, done: Committed) -> None:
        """Commit a batch after those queued before; `done` is called in the loop's thread, in the order of appends."""
        if batch.alone and self._average < QUICK and not self._unreported and self._is_idle:
            began = perf_counter()
            results = self.committer.commit_here(batch)
            if results is not None:
                self._measure(perf_counter() - began)
                done(results[0])
                return
        self._unreported += 1
        self._enqueue(_QueuedBatch(batch, done))

    def _enqueue(self, item: _QueuedBatch | Work | None) -> None:
        self._queued += 1
        self._queue.put(item)

    def _measure(self, seconds: float) -> None:
        self._average += SMOOTHING * (seconds - self._average)

    def submit(self, work: Work) -> None:
        """Queue other work, which must not raise."""
        self._enqueue(work)

    async def call(self, work: Callable[[], T]) -> T:
        """Queue work and wait for its result."""
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)  # pyright: ignore[reportArgumentType] - T may be None

        def run() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller
                self._call_in_loop(settle, None, error)
            else:
                self._call_in_loop(settle, result, None)

        self._enqueue(run)
        return await future

    async def call_promptly(self, work: Callable[[], T]) -> T:
        """Do work that takes microseconds: in the loop's thread while the writer thread is idle, without a switch."""
        return work() if self._is_idle else await self.call(work)

    @property
    def _is_idle(self) -> bool:
        return self._queued == self._finished

    async def close(self) -> None:
        """Process what is queued, report every result, and end the thread."""
        self._enqueue(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join)

    def _serve(self) -> None:
        """Process the queue; batches that queued up during a commit form the next group."""
        queue, group = self._queue, list[_QueuedBatch]()
        while True:
            item = queue.get()
            while isinstance(item, _QueuedBatch):
                group.append(item)
                if queue.empty():
                    break
                item = queue.get()
            if group:
                self._commit(group)
                self._finished += len(group)
                group = []
            if item is None:
                return
            if not isinstance(item, _QueuedBatch):
                item()
                self._finished += 1

    def _commit(self, group: list[_QueuedBatch]) -> None:
        began = perf_counter()
        try:
            results = self.committer.commit_group([batch for batch, _ in group])
            if len(group) == 1 and group[0].batch.alone:
                self._measure(perf_counter() - began)
        except BaseException as error:  # noqa: BLE001 - every driver gets the error, and the thread goes on
            results = [error] * len(group)
        self._call_in_loop(self._report, group, results)

    def _report(self, group: list[_QueuedBatch], results: Sequence[BaseException | None]) -> None:
        self._unreported -= len(group)
        for (_, done), result in zip(group, results, strict=True):
            try:
                done(result)
            except Exception as error:  # noqa: BLE001 - one callback's error must not block the others
                self._loop.call_exception_handler({"message": "a journal's callback failed", "exception": error})

    def _call_in_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(callback, *arguments)
