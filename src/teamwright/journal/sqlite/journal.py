"""The journal in one SQLite file, and the notes of agents in it: WAL, `synchronous=FULL`, one writer thread, one
connection for reading.

It never blocks the event loop: commits go through the writer thread, reads through a worker thread, and acquiring a
driver lock never waits. Several processes may have the file open; a forked child must open its own journal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence, Set
from contextlib import ExitStack, asynccontextmanager
from json import dumps
from pathlib import Path
from typing import Protocol, TypeVar

import anyio
import anyio.to_thread

from teamwright.errors import JournalUnavailable
from teamwright.journal.agent_notes import Note, Notes, similar_notes
from teamwright.journal.codec import decode_intervention, encode_intervention
from teamwright.journal.protocol import Batch, Committed, InboxItem, Journal, TokenRates, missing_bodies
from teamwright.journal.run_filter import ALL_RUNS, RecentRuns, RunFilter
from teamwright.journal.sqlite.commits import Committer, Writer
from teamwright.journal.sqlite.database import BUSY_TIMEOUT, CREATE_SEARCH, SEARCH, Database
from teamwright.journal.sqlite.files import LOCKS, DriverLocks
from teamwright.journal.sqlite.queries import (
    lenient_text,
    read_bodies,
    read_events,
    read_place,
    read_summaries,
    transaction,
)
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event
from teamwright.values.people import Intervention
from teamwright.values.turns.results import FINAL, RunSummary

_COLUMNS = "id, memory, text, author, run_id, time"
_HELD = "memory = ? AND forgotten IS NULL"

ALL = -1
"""The limit of a query without one."""
LARGEST_ID = 2**63 - 1
"""The largest number that SQLite stores."""


class NotesFile(Protocol):
    """The database as notes use it: writes in the writer thread, reads in another."""

    def write(self, work: Callable[[sqlite3.Cursor], T]) -> Awaitable[T]: ...

    def query(self, work: Callable[[sqlite3.Connection], T]) -> Awaitable[T]: ...


class SqliteNotes:
    """The notes of one journal."""

    def __init__(self, file: NotesFile) -> None:
        self._file = file

    async def add(self, note: Note, *, key: str, most: int) -> Note | None:

        def work(cursor: sqlite3.Cursor) -> Note | None:
            _create_search(cursor)
            with transaction(cursor):
                same = cursor.execute(
                    f"SELECT {_COLUMNS} FROM notes WHERE key = ? OR ({_HELD} AND text = ?) ORDER BY key <> ?",
                    (key, note.memory, note.text, key),
                ).fetchone()
                if same is not None:
                    return Note(*same)
                if cursor.execute(f"SELECT count(*) FROM notes WHERE {_HELD}", (note.memory,)).fetchone()[0] >= most:
                    return None
                columns = (note.memory, note.text, note.author, note.run_id, note.time)
                number = cursor.execute(
                    "INSERT INTO notes (memory, text, author, run_id, time, key) VALUES (?, ?, ?, ?, ?, ?)",
                    (*columns, key),
                ).lastrowid
                cursor.execute(f"INSERT INTO {SEARCH} (rowid, text) VALUES (?, ?)", (number, note.text))
                return Note(number or 0, *columns)

        return await self._file.write(work)

    async def search(self, memory: str, words: Sequence[str], limit: int) -> list[Note]:
        """Return the notes that contain any of the words, by rank."""

        def work(reader: sqlite3.Connection) -> list[Note]:
            if not words:
                return _newest(reader, memory, limit)
            if not _has_search(reader):
                return []
            statement = (
                f"SELECT {_COLUMNS} FROM (SELECT rowid, rank FROM {SEARCH} WHERE {SEARCH} MATCH ?) AS found"
                f" JOIN notes ON notes.id = found.rowid WHERE {_HELD} ORDER BY rank, id DESC LIMIT ?"
            )
            wanted = " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
            found = [Note(*row) for row in reader.execute(statement, (wanted, memory, limit))]
            return found or similar_notes(_newest(reader, memory, ALL), words, limit)

        return await self._file.query(work)

    async def forget(self, memory: str, note: int, *, key: str) -> bool:
        """Remove the text of a note, once for each key."""
        if not 0 < note <= LARGEST_ID:  # a model may invent any number
            return False

        def work(cursor: sqlite3.Cursor) -> bool:
            with transaction(cursor):
                found = cursor.execute(
                    "SELECT text, forgotten FROM notes WHERE id = ? AND memory = ?", (note, memory)
                ).fetchone()
                if found is None or found[1] is not None:
                    return found is not None and found[1] == key
                cursor.execute(
                    f"INSERT INTO {SEARCH} ({SEARCH}, rowid, text) VALUES ('delete', ?, ?)", (note, found[0])
                )
                cursor.execute("UPDATE notes SET text = '', forgotten = ? WHERE id = ?", (key, note))
                return True

        return await self._file.write(work)

    async def memories(self) -> dict[str, int]:

        def work(reader: sqlite3.Connection) -> dict[str, int]:
            statement = "SELECT memory, count(*) FROM notes WHERE forgotten IS NULL GROUP BY memory ORDER BY memory"
            return dict(reader.execute(statement).fetchall())

        return await self._file.query(work)


def _newest(reader: sqlite3.Connection, memory: str, limit: int) -> list[Note]:
    statement = f"SELECT {_COLUMNS} FROM notes WHERE {_HELD} ORDER BY id DESC LIMIT ?"
    return [Note(*row) for row in reader.execute(statement, (memory, limit))]


def _has_search(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (SEARCH,)).fetchone() is not None


def _create_search(cursor: sqlite3.Cursor) -> None:
    if _has_search(cursor.connection):
        return
    try:
        cursor.execute(CREATE_SEARCH)
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise JournalUnavailable(
            "The SQLite of this Python has no full-text search (FTS5), which `memory` needs: use another Python."
        ) from error


T = TypeVar("T")

_NEXT_ID = 0
"""Stands for the id that the database gives to a new inbox item; ids begin with 1."""


class SqliteJournal(Journal):
    """Durable storage of runs in a file."""

    def __init__(self, path: str | Path, *, busy_timeout: float | None = None) -> None:
        self._path = Path(path).expanduser().resolve()
        self._busy_timeout = BUSY_TIMEOUT if busy_timeout is None else busy_timeout
        self._locks = DriverLocks(self._path.parent / LOCKS, self._path.name)
        self._reading = anyio.CapacityLimiter(1)
        self._driven: set[str] = set()
        self._new_committer: Callable[[Database, Set[str]], Committer] = Committer
        self._opened: Database | None = None
        self._running: Writer | None = None
        self._sent = 0
        self._seen: tuple[int, int] | None = None
        self._notes, self._token_rates = SqliteNotes(self), SqliteTokenRates(self)

    @property
    def notes(self) -> Notes:
        return self._notes

    @property
    def token_rates(self) -> TokenRates:
        return self._token_rates

    async def open(self) -> None:
        """Open the file; create or upgrade it first where needed."""
        self._opened = await anyio.to_thread.run_sync(Database, self._path, self._busy_timeout, limiter=self._reading)
        self._seen = None
        self._running = Writer(f"journal {self._path.name}", self._new_committer(self._opened, self._driven))

    async def close(self) -> None:
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
            writer = self._writer
            writer.submit(lambda: writer.committer.prepare_driving(run_id))
            self._driven.add(run_id)
            try:
                yield
            finally:
                self._driven.discard(run_id)
                if (running := self._running) is not None:
                    running.submit(lambda: running.committer.forget(run_id))

    async def is_driven(self, run_id: str) -> bool:
        return self._locks.is_held(run_id)

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:

        def work(reader: sqlite3.Connection) -> list[Event]:
            place = read_place(reader, run_id)
            return [] if place is None else read_events(reader, run_id, place, after, limit, without)

        return await self.query(work)

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        wanted = set(hashes)
        found = await self.query(lambda reader: read_bodies(reader, wanted))
        if len(found) < len(wanted):
            raise missing_bodies(wanted - found.keys())
        return found

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        which = "" if conversation is None else "WHERE conversation <> ''"
        which += " AND conversation = ?" if conversation else ""
        named = (conversation,) if conversation else ()
        return await _summaries(
            self, self._locks.is_held, f"{which} ORDER BY place DESC LIMIT ?", *named, -1 if limit is None else limit
        )

    async def children(self, run_ids: Collection[str]) -> list[RunSummary]:
        which = "WHERE parent <> '' AND parent IN (SELECT value FROM json_each(?)) ORDER BY place DESC"
        return await _summaries(self, self._locks.is_held, which, dumps(list(run_ids)))

    async def top_runs(self, limit: int | None = None, which: RunFilter | RecentRuns = ALL_RUNS) -> list[RunSummary]:
        clauses, parameters = which.clauses(limit)
        return [run for run in await _summaries(self, self._locks.is_held, clauses, *parameters) if which.matches(run)][
            :limit
        ]

    async def count_recent(self, which: RecentRuns) -> int:
        clauses, parameters = which.count_clauses()
        statement = f"SELECT count(*) FROM runs {clauses}"
        return await self.query(lambda reader: reader.execute(statement, parameters).fetchone()[0])

    async def open_runs(self) -> list[RunSummary]:
        """Return the runs that have not ended, newest first; a row may lag behind its events, but never ends early."""
        which = "WHERE status IS NULL OR status NOT IN (SELECT value FROM json_each(?)) ORDER BY place DESC"
        return [
            one
            for one in await _summaries(self, self._locks.is_held, which, dumps(sorted(FINAL)))
            if one.status not in FINAL
        ]

    async def find(self, run_id: str) -> RunSummary | None:
        """Return the summary of a run, or None."""
        return next(iter(await _summaries(self, self._locks.is_held, "WHERE id = ?", run_id)), None)

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
        await self.restore(InboxItem(_NEXT_ID, run_id, intervention))

    async def restore(self, item: InboxItem) -> None:
        """Add an inbox item under its id, unless it is there, or under the next one."""
        known = item.id != _NEXT_ID
        if known and any(one.id == item.id for one in await self.inbox(item.run_id, item.id - 1)):
            return
        columns = (item.id if known else None, item.run_id, encode_intervention(item.intervention))

        def work(cursor: sqlite3.Cursor) -> None:
            cursor.execute("INSERT INTO inbox VALUES (?, ?, ?)", columns)
            self._sent += 1  # here, once the item can be read, also if the caller no longer waits for it

        await self.write(work)

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:

        def work(reader: sqlite3.Connection) -> list[InboxItem]:
            with lenient_text(reader):
                rows = reader.execute(
                    "SELECT id, data FROM inbox WHERE run_id = ? AND id > ? ORDER BY id", (run_id, after)
                ).fetchall()
            return [InboxItem(number, run_id, decode_intervention(run_id, number, data)) for number, data in rows]

        return await self.query(work)

    async def changed(self, every: float) -> None:
        """Wait until another connection has committed, or this one has sent something, since the last call.

        It polls at this interval. What the runs of this journal record is no change.
        """

        def look() -> int:
            self._database.use_busy_timeout(False)
            with self._database.translated_errors():
                return self._database.foreign_changes()

        seen = self._seen
        while seen == self._seen:
            await anyio.sleep(every)
            self._seen = (self._sent, await self._writer.call_promptly(look))

    async def write(self, work: Callable[[sqlite3.Cursor], T]) -> T:
        """Change something beside the record of runs, in the writer thread."""

        def write() -> T:
            self._database.use_busy_timeout(True)
            with self._database.translated_errors():
                done = work(self._database.cursor)
                self._database.require_identity()
                return done

        return await self._writer.call(write)

    async def query(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read in a worker thread, one read at a time; its own limiter keeps other thread work from delaying it."""
        database = self._database

        def read() -> T:
            with database.translated_errors():
                return work(database.reader)

        return await anyio.to_thread.run_sync(read, limiter=self._reading)

    @property
    def _writer(self) -> Writer:
        if self._running is None:
            raise _closed(self._path)
        return self._running

    @property
    def _database(self) -> Database:
        if self._opened is None:
            raise _closed(self._path)
        return self._opened


def _closed(path: Path) -> JournalUnavailable:
    return JournalUnavailable(f"The journal {str(path)!r} is not open: call open() before using it.")


class SqliteTokenRates:
    """The rates of one journal."""

    def __init__(self, file: NotesFile) -> None:
        self._file = file

    async def load(self, model: str) -> str | None:

        def work(reader: sqlite3.Connection) -> str | None:
            row = reader.execute("SELECT samples FROM token_rates WHERE model = ?", (model,)).fetchone()
            return None if row is None else row[0]

        return await self._file.query(work)

    async def save(self, model: str, samples: str) -> None:

        def work(cursor: sqlite3.Cursor) -> None:
            with transaction(cursor):
                cursor.execute("INSERT OR REPLACE INTO token_rates VALUES (?, ?)", (model, samples))

        await self._file.write(work)


async def _summaries(
    journal: SqliteJournal, is_driven: Callable[[str], bool], which: str, *parameters: str | float
) -> list[RunSummary]:
    return await journal.query(lambda reader: read_summaries(reader, which, parameters, is_driven))
