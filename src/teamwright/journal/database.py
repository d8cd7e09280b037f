"""The SQLite file under the journal: opening and preparing it, writing to it, and its failures in words.

It never writes to a file that is not a journal.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from teamwright.errors import JournalCorrupt, JournalError, JournalUnavailable
from teamwright.journal.deleting import delete_runs
from teamwright.journal.migrations import MIGRATIONS, migrate

Column = str | bytes | float | None
"""What a row holds in one place."""

APPLICATION_ID = 0x7EA3_3117
"""Marks a file as a journal."""

_LOG_PAGES = 256
"""When the write-ahead log is folded into the file. One that is written over is synced in half the time of one that
grows, so it is kept short and made long enough before it is needed."""
_LOG_BYTES = (_LOG_PAGES + 16) * 4200
AT_ONCE = 8
"""Up to how many rows are always added by one statement."""
_BLOCK = 64
"""How many rows of many go into one statement."""
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
_ADVICE = {
    sqlite3.SQLITE_BUSY: "another process has locked it, so end that one or try again",
    sqlite3.SQLITE_LOCKED: "another process has locked it, so end that one or try again",
    sqlite3.SQLITE_FULL: "the disk is full, so make room, for example with  teamwright runs prune,  and resume",
    sqlite3.SQLITE_READONLY: "it is read-only, so change its permissions or set TEAMWRIGHT_HOME to a folder of yours",
    sqlite3.SQLITE_CANTOPEN: "see that its folder exists and may be written, or set TEAMWRIGHT_HOME to one of yours",
}


class Database:
    """One file, open twice: for the writer thread and for reading."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        """Open the file, creating it or bringing it up to date."""
        self.name = str(path)
        self._patience = busy_timeout
        self.waits = True
        """Whether a commit waits for another process that is writing, or is refused at once."""
        try:
            (path.parent / "locks").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JournalUnavailable(
                f"The folder of the journal {self.name!r} can't be made or written: {error.strerror};"
                " set TEAMWRIGHT_HOME to a folder of yours."
            ) from error
        with self.told(), ExitStack() as opened:
            self.writer = self._open(opened, busy_timeout)
            self.pen = self.writer.cursor()
            """For what is written again and again: a connection makes a new one for each statement."""
            _prepare(self.writer, self.name, busy_timeout)
            self.reader = self._open(opened, busy_timeout)
            self.reader.execute("PRAGMA query_only = ON")
            self._opened = opened.pop_all()

    def _open(self, opened: ExitStack, busy_timeout: float) -> sqlite3.Connection:
        """Transactions are explicit; one thread at a time uses it, though not always the same one."""
        connection = sqlite3.connect(self.name, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
        opened.callback(connection.close)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        return connection

    def wait_for_others(self, waits: bool) -> None:
        """Say whether commits wait from here on."""
        if waits != self.waits:
            self.waits = waits
            self.writer.execute(f"PRAGMA busy_timeout = {int(1000 * self._patience) if waits else 0}")

    def close(self) -> None:
        """Close both; the last process to do so folds the write-ahead log into the file."""
        self._opened.close()

    def changes(self) -> int:
        """A number that differs once anybody has committed something."""
        return _pragma(self.reader, "data_version")

    def lengthen_log(self) -> None:
        """Make the log as long as it is going to be, so that no commit has to, unless somebody else is writing.

        Whoever may write is the only one who may append to it, and SQLite passes over what it did not write itself.
        """
        self.wait_for_others(False)
        with suppress(sqlite3.Error, OSError), transaction(self.pen), Path(f"{self.name}-wal").open("ab", 0) as log:
            if log.tell() < _LOG_BYTES:
                log.write(bytes(_LOG_BYTES - log.tell()))
                os.fsync(log.fileno())

    def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs in one transaction, then shorten the file; returns by how many bytes."""
        connection = self.writer
        with self.told():
            before = _pragma(connection, "page_count")
            with transaction(self.pen) as pen:
                delete_runs(pen, run_ids)
            connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
            return max(0, before - _pragma(connection, "page_count")) * _pragma(connection, "page_size")

    @contextmanager
    def told(self) -> Generator[None]:
        """Raise failures of SQLite in words."""
        try:
            yield
        except sqlite3.Error as error:
            raise self.in_words(error) from error

    def in_words(self, error: sqlite3.Error) -> JournalError:
        """What went wrong with the file, and what to do."""
        misused = isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
        unnumbered = sqlite3.SQLITE_MISUSE if misused else sqlite3.SQLITE_CORRUPT
        code = getattr(error, "sqlite_errorcode", unnumbered) & 0xFF
        if code in _DAMAGED:
            return JournalCorrupt(
                f"The journal {self.name!r} is damaged or is no journal ({error}): restore a backup, save what is left"
                f" with  sqlite3 {self.name} .recover  or move the file away to begin a new one."
            )
        advice = _ADVICE.get(code, "see that the file can be read and written")
        return JournalUnavailable(
            f"The journal {self.name!r} can't be used now ({error}): {advice}; what was recorded before is safe."
        )


def is_locked(error: sqlite3.Error) -> bool:
    """Whether somebody else is writing."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF == sqlite3.SQLITE_BUSY


class transaction:  # noqa: N801 - it is used as a function
    """All or nothing; the right to write is had from the start, so that no commit can fail for want of it."""

    __slots__ = ("_pen",)

    def __init__(self, pen: sqlite3.Cursor) -> None:
        self._pen = pen

    def __enter__(self) -> sqlite3.Cursor:
        return self._pen.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._pen.execute("COMMIT")
        finally:
            if self._pen.connection.in_transaction:
                self._pen.execute("ROLLBACK")


class Insert:
    """Adds rows to a table, many by one statement: SQLite then lets go of the interpreter once, not for each row."""

    __slots__ = ("_block", "_least", "_statements")

    def __init__(self, into: str, columns: int, otherwise: str = "") -> None:
        row = f"({', '.join('?' * columns)})"
        self._least, self._block = AT_ONCE * columns, _BLOCK * columns
        self._statements = {
            rows * columns: f"INSERT INTO {into} VALUES {', '.join([row] * rows)} {otherwise}"
            for rows in (*range(1, AT_ONCE + 1), _BLOCK)
        }

    def __call__(self, pen: sqlite3.Cursor, columns: Sequence[Column]) -> int:
        """Add rows, given as their columns in a row, and return how many were added.

        Up to `AT_ONCE` are added by one statement, all or none; more need a transaction around them.
        """
        if statement := self._statements.get(len(columns)):
            return pen.execute(statement, columns).rowcount
        start = added = 0
        while left := len(columns) - start:
            size = self._block if left >= self._block else min(left, self._least)
            added += pen.execute(self._statements[size], columns[start : start + size]).rowcount
            start += size
        return added


def _prepare(connection: sqlite3.Connection, name: str, patience: float) -> None:
    """Bring a database up to date, whoever else may be doing the same."""
    connection.execute("BEGIN")  # all that is looked at here is of one moment: another process may just be creating it
    version, owner = _pragma(connection, "user_version"), _pragma(connection, "application_id")
    used = connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None
    connection.execute("COMMIT")
    if owner != APPLICATION_ID and (version or used):
        raise JournalCorrupt(f"{name!r} is a database of another program: give the journal a file of its own.")
    if version == len(MIGRATIONS):
        return
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        _switch_to_wal(connection, name, patience)
    with transaction(connection.cursor()):
        migrate(name, _pragma(connection, "user_version"), connection.execute)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _switch_to_wal(connection: sqlite3.Connection, name: str, patience: float) -> None:
    """SQLite does not wait here when somebody else is switching too, so this does."""
    deadline = time.monotonic() + patience
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise JournalUnavailable(
            f"The journal {name!r} lies where SQLite can't keep a write-ahead log, as on many network drives:"
            " set TEAMWRIGHT_HOME to a folder on a local disk."
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
