"""The journal in one SQLite file: WAL, `synchronous=FULL`, one writer thread, one connection for reading.

It never blocks the event loop: commits go through the writer thread, reads through a worker thread, and acquiring a
driver lock never waits. Several processes may have the file open; a forked child must open its own journal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import ExitStack, asynccontextmanager
from json import dumps
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from teamwright.errors import JournalCorrupt, JournalError, JournalTooNew, JournalUnavailable
from teamwright.journal.codec import decode_intervention, decode_run, encode_intervention
from teamwright.journal.location import BUSY_TIMEOUT
from teamwright.journal.protocol import Batch, Committed, InboxItem, Journal, fenced_out, missing_bodies, missing_source
from teamwright.journal.run_status import RunStatus
from teamwright.journal.sqlite.database import SINGLE_STATEMENT_ROWS, Column, Database, Insert, is_locked
from teamwright.journal.sqlite.files import LOCKS, DriverLocks
from teamwright.journal.sqlite.layout import transaction
from teamwright.journal.sqlite.notes import SqliteNotes, SqliteTokenRates
from teamwright.journal.sqlite.queries import STATUS_COLUMNS, lenient_text, read_bodies, read_events, read_place
from teamwright.journal.sqlite.run_rows import RunRows
from teamwright.journal.sqlite.writer import Writer
from teamwright.journal.stores import Notes, TokenRates
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.people.interventions import Intervention
from teamwright.values.results import RunSummary

T = TypeVar("T")

_SMALL = 50
_add_events = Insert("events", 8)


class SqliteJournal(Journal):
    """Durable storage of runs in a file."""

    def __init__(self, path: str | Path, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        self._path = Path(path).expanduser().resolve()
        self._busy_timeout = busy_timeout
        self._locks = DriverLocks(self._path.parent / LOCKS, self._path.name)
        self._reading = anyio.CapacityLimiter(1)
        self._failed: dict[str, JournalError] = {}
        self._driven: set[str] = set()
        self._run_rows: dict[str, RunRows] = {}
        self._opened: Database | None = None
        self._running: Writer | None = None
        self._sent = 0
        self._seen: tuple[int, int] | None = None

    @property
    def notes(self) -> Notes:
        """The notes that agents keep across runs."""
        return SqliteNotes(self)

    @property
    def token_rates(self) -> TokenRates:
        """What is known of the tokens of models."""
        return SqliteTokenRates(self)

    async def write_notes(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        """Change notes, or what else is kept beside runs, in the writer thread."""

        def write() -> T:
            self._database.use_busy_timeout(True)
            with self._database.translated_errors():
                done = work(self._database.cursor)
                self._database.require_identity()
                return done

        return await self._writer.call(write)

    async def read_notes(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read notes, or what else is kept beside runs, in the reader thread."""
        return await self._read(work)

    async def open(self) -> None:
        """Open the file; create or upgrade it first where needed."""
        self._opened = await anyio.to_thread.run_sync(Database, self._path, self._busy_timeout, limiter=self._reading)
        self._failed, self._run_rows, self._seen = {}, {}, None
        self._running = Writer(f"journal {self._path.name}", self._commit_group, self._commit_here)

    async def close(self) -> None:
        """Wait for pending commits, then close the file."""
        writer, self._running = self._running, None
        if writer is not None:
            await writer.close()
        database, self._opened = self._opened, None
        if database is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(database.close, limiter=self._reading)

    def append(self, batch: Batch, done: Committed) -> None:
        """Queue a batch for the writer thread, or commit it in place when no other task needs the event loop."""
        self._writer.append(batch, done)

    @asynccontextmanager
    async def drive(self, run_id: str) -> AsyncGenerator[None]:
        """Hold the run's driver lock, in a file beside the database."""
        with self._locks.hold(run_id):
            self._writer.submit(lambda: self._prepare_driving(run_id))
            self._driven.add(run_id)
            try:
                yield
            finally:
                self._driven.discard(run_id)
                if self._running is not None:
                    self._running.submit(lambda: self._forget(run_id))

    async def is_driven(self, run_id: str) -> bool:
        """Whether any process holds the run's driver lock now."""
        return self._locks.is_held(run_id)

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        """Return the run's events with a number above `after`, in order, except the kinds in `without`."""

        def work(reader: sqlite3.Connection) -> list[Event]:
            place = read_place(reader, run_id)
            return [] if place is None else read_events(reader, run_id, place, after, limit, without)

        return await self._read(work)

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """Return the JSON text of each body."""
        wanted = set(hashes)
        found = await self._read(lambda reader: read_bodies(reader, wanted))
        if len(found) < len(wanted):
            raise missing_bodies(wanted - found.keys())
        return found

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        """Return the summaries of all runs, or of the turns of a conversation, newest first."""
        which = "" if conversation is None else "WHERE conversation <> ''"
        which += " AND conversation = ?" if conversation else ""
        named = (conversation,) if conversation else ()
        return await self._summaries(f"{which} ORDER BY place DESC LIMIT ?", *named, -1 if limit is None else limit)

    async def children(self, run_ids: Collection[str]) -> list[RunSummary]:
        """Return the children of these runs, newest first."""
        which = "WHERE parent <> '' AND parent IN (SELECT value FROM json_each(?)) ORDER BY place DESC"
        return await self._summaries(which, dumps(list(run_ids)))

    async def find(self, run_id: str) -> RunSummary | None:
        """Return the summary of a run, or None."""
        return next(iter(await self._summaries("WHERE id = ?", run_id)), None)

    async def _summaries(self, which: str, *parameters: str | int) -> list[RunSummary]:
        def work(reader: sqlite3.Connection) -> list[RunSummary]:
            with lenient_text(reader):
                rows = reader.execute(f"SELECT id, place, {STATUS_COLUMNS} FROM runs {which}", parameters).fetchall()
            return [self._summary(reader, str(run_id), columns) for run_id, *columns in rows]

        return await self._read(work)

    def _summary(self, reader: sqlite3.Connection, run_id: str, columns: Sequence[object]) -> RunSummary:
        """Return the summary of a run. A run that can't be read is marked as damaged and does not hide the others."""
        status = RunStatus()
        try:
            place, status = decode_run(run_id, columns)
            if not status.settled:
                fold(read_events(reader, run_id, place, status.number), status)
        except (JournalCorrupt, JournalTooNew) as error:
            return status.summary(run_id, driven=self._locks.is_held(run_id)).changed(damage=str(error))
        return status.summary(run_id, driven=not status.settled and self._locks.is_held(run_id))

    async def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs and the bodies that only they refer to, and shrink the file; return the bytes freed."""

        def work() -> int:
            with ExitStack() as held:
                for run_id in set(run_ids):
                    held.enter_context(self._locks.hold(run_id))
                self._database.use_busy_timeout(True)
                return self._database.delete(run_ids)

        return await self._writer.call(work)

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Add an intervention to a run's inbox."""
        text = encode_intervention(intervention)

        await self._add_to_inbox("INSERT INTO inbox (run_id, data) VALUES (?, ?)", (run_id, text))

    async def restore(self, item: InboxItem) -> None:
        """Add an inbox item of another journal under its id; raises `JournalError` if another run has this id."""
        text = encode_intervention(item.intervention)
        if any(one.id == item.id for one in await self.inbox(item.run_id, item.id - 1)):
            return
        await self._add_to_inbox("INSERT INTO inbox VALUES (?, ?, ?)", (item.id, item.run_id, text))

    async def _add_to_inbox(self, statement: str, columns: tuple[str | int, ...]) -> None:
        def work() -> None:
            self._database.use_busy_timeout(True)
            with self._database.translated_errors():
                self._database.writer.execute(statement, columns)
                self._database.require_identity()
            self._sent += 1  # here, once the item can be read, also if the caller no longer waits for it

        await self._writer.call(work)

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        """Return the run's inbox items with an id above `after`, in order."""

        def work(reader: sqlite3.Connection) -> list[InboxItem]:
            with lenient_text(reader):
                rows = reader.execute(
                    "SELECT id, data FROM inbox WHERE run_id = ? AND id > ? ORDER BY id", (run_id, after)
                ).fetchall()
            return [InboxItem(number, run_id, decode_intervention(run_id, number, data)) for number, data in rows]

        return await self._read(work)

    async def changed(self, every: float) -> None:
        """Wait until another connection has committed, or this one has sent something, since the last call.

        It polls at this interval. What the runs of this journal record is no change.
        """
        seen = self._seen
        while seen == self._seen:
            await anyio.sleep(every)
            self._seen = (self._sent, await self._writer.call_promptly(self._foreign_changes))

    def _foreign_changes(self) -> int:
        self._database.use_busy_timeout(False)
        with self._database.translated_errors():
            return self._database.foreign_changes()

    def _commit_here(self, batch: Batch) -> Sequence[BaseException | None] | None:
        """Commit a batch in the loop's thread; return `None` where that could block other work."""
        if self._failed or len(self._driven) > 1 or len(batch.events) > _SMALL:
            return None
        if self._database.uses_busy_timeout:
            self._database.use_busy_timeout(False)
        try:
            self._commit((batch,))
        except sqlite3.Error as error:
            return None if is_locked(error) else self._commit_group([batch])
        except (ValueError, OverflowError, JournalError):
            return self._commit_group([batch])
        return (None,)

    def _commit_group(self, batches: Sequence[Batch]) -> Sequence[BaseException | None]:
        """Commit a group of batches and return the error of each; a batch that can't be stored fails alone."""
        self._database.use_busy_timeout(True)
        if not any(map(self._refusal, batches)):
            try:
                self._commit(batches)
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
            self._commit([batch])
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

    def _prepare_driving(self, run_id: str) -> None:
        self._failed.pop(run_id, None)
        self._forget(run_id)
        self._database.preallocate_log()

    def _forget(self, run_id: str) -> None:
        """Drop the cache of a run, which another process may drive from now on."""
        self._run_rows.pop(run_id, None)

    def _commit(self, batches: Sequence[Batch]) -> None:
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

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read in a worker thread, one read at a time; its own limiter keeps other thread work from delaying it."""
        database = self._database

        def read() -> T:
            with database.translated_errors():
                return work(database.reader)

        return await anyio.to_thread.run_sync(read, limiter=self._reading)

    @property
    def _writer(self) -> Writer:
        if self._running is None:
            raise self._closed()
        return self._running

    @property
    def _database(self) -> Database:
        if self._opened is None:
            raise self._closed()
        return self._opened

    def _closed(self) -> JournalUnavailable:
        return JournalUnavailable(f"The journal {str(self._path)!r} is not open: call open() before using it.")
