"""The SQLite file of the journal: opens and prepares it, deletes runs, and translates its errors.

It never writes to a file that is not a journal.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from teamwright.errors import JournalCorrupt, JournalError, JournalUnavailable
from teamwright.journal.location import make_file, make_folder, make_own_folder, tighten_folder
from teamwright.journal.sqlite.files import LOCKS, RESCUE, DiskReserve, FileIdentity, save_copy
from teamwright.journal.sqlite.layout import check_layout, is_older, prepare, upgrade
from teamwright.journal.sqlite.queries import delete_runs, is_bad_text, lenient_text, pragma, transaction

Column = str | bytes | float | None
"""The value of a column."""

BUSY_TIMEOUT = 10.0
"""Seconds that a commit waits for another process that is writing, by default."""
_LOG_PAGES = 256
"""The length of the write-ahead log at a checkpoint. Syncing a log that is overwritten takes half the time of one that
grows, so the log is kept short and preallocated."""
_LOG_BYTES = (_LOG_PAGES + 16) * 4200
SINGLE_STATEMENT_ROWS = 8
"""The most rows that are always inserted by a single statement."""
_BLOCK = 64
"""Rows per statement of a large insert."""
_LARGEST = 256 * 1024 * 1024
"""The size limit of a row, in bytes."""
_STEP = 64
"""Pages per vacuum step on a full disk."""
_MAKE_ROOM = "delete some other file of a few MiB"
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_ADVICE = {
    sqlite3.SQLITE_ERROR: "another version of Teamwright may have changed it meanwhile, so try again",
    sqlite3.SQLITE_TOOBIG: f"a row is larger than {_LARGEST // 1024 // 1024} MiB, so keep such things in files",
    sqlite3.SQLITE_BUSY: "another process has locked it, so end that one or try again",
    sqlite3.SQLITE_LOCKED: "another process has locked it, so end that one or try again",
    sqlite3.SQLITE_FULL: "the disk is full, so make room, such as with  teamwright runs delete --keep 7d",
    sqlite3.SQLITE_READONLY: "it is read-only, so change its permissions or set TEAMWRIGHT_HOME to a folder of yours",
    sqlite3.SQLITE_CANTOPEN: "see that its folder exists and may be written, or set TEAMWRIGHT_HOME to one of yours",
}


class Database:
    """One file with two connections: for the writer thread and for readers."""

    def __init__(self, path: Path, busy_timeout: float) -> None:
        """Open the file; create or upgrade it first where needed."""
        self.name = str(path)
        self._busy_timeout = busy_timeout
        self.uses_busy_timeout = True
        """Whether a commit waits for another process that is writing, or fails at once."""
        self._reserve = DiskReserve(self.name)
        self.lost: JournalUnavailable | None = None
        """The error of every commit once the file has been deleted or replaced."""
        try:
            _create_files(path)
        except OSError as error:
            raise JournalUnavailable(
                f"The folder of the journal {self.name!r} can't be created or written: {error.strerror};"
                " set TEAMWRIGHT_HOME to a folder of yours."
            ) from error
        with self.translated_errors():
            try:
                self._open(busy_timeout)
            except sqlite3.OperationalError as error:
                if not (self._is_full(error) and self._reserve.release()):
                    raise
                try:
                    self._open(busy_timeout)
                finally:
                    self._reserve.hold_rest()  # else the next run would use up the space, and no run could be deleted
        self._reserve.fill()

    def _open(self, busy_timeout: float) -> None:
        with ExitStack() as opened:
            self.writer = self._connect(opened, busy_timeout)
            if is_older(self.writer, self.name):
                opened.close()
                upgrade(self.name, busy_timeout)
                self.writer = self._connect(opened, busy_timeout)
            self.cursor = self.writer.cursor()
            opened.callback(self.cursor.close)
            """Reused by every commit: `Connection.execute` would create a cursor for each statement."""
            prepare(self.writer, self.name, busy_timeout)
            self.reader = self._connect(opened, busy_timeout)
            self.reader.execute("PRAGMA query_only = ON")
            check_layout(self.reader, self.name)
            self._identity = FileIdentity(self.name, self.writer)
            self._opened = opened.pop_all()

    def _connect(self, opened: ExitStack, busy_timeout: float) -> sqlite3.Connection:
        """Open a connection with explicit transactions. One thread at a time uses it, not always the same."""
        connection = sqlite3.connect(self.name, timeout=busy_timeout, isolation_level=None, check_same_thread=False)
        opened.callback(connection.close)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LARGEST)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
        return connection

    def use_busy_timeout(self, enabled: bool) -> None:
        """Set the writer's busy timeout to that of the journal, or to zero, so that a busy database fails at once."""
        if enabled != self.uses_busy_timeout:
            self.uses_busy_timeout = enabled
            self.writer.execute(f"PRAGMA busy_timeout = {int(1000 * self._busy_timeout) if enabled else 0}")

    def close(self) -> None:
        """Close both connections; the last process to do so checkpoints the write-ahead log."""
        if self.lost is None:
            self._opened.close()
            self._reserve.top_up()
            return
        with self._identity.preserve_other_files():
            self._opened.close()

    def require_identity(self, *, thorough: bool = True) -> None:
        """Raise if the last commit went into a file that is no longer at its path; save a copy of the data first."""
        if self.lost is None and (what := self._identity.changed(thorough=thorough)) is not None:
            self.lost = self._rescued(what)
        if self.lost is not None:
            raise self.lost

    def _rescued(self, what: str) -> JournalUnavailable:
        path = Path(self.name)
        saved = save_copy(self.writer, path.parent, path.name)
        problem = f"The journal {self.name!r} {what} while it was in use, so nothing more can be recorded in it;"
        if saved is None:
            return JournalUnavailable(
                f"{problem} its content could not be saved either. Restore a backup of the journal."
            )
        return JournalUnavailable(
            f"{problem} its content is saved in {str(saved)!r}. Put that file back, or use it where it is with"
            f"  TEAMWRIGHT_HOME={saved.parent} teamwright runs list"
        )

    def foreign_changes(self) -> int:
        """A number that changes when a connection other than the writer's commits; reading it takes microseconds."""
        return pragma(self.writer, "data_version")

    def preallocate_log(self) -> None:
        """Extend the log to its full length, so that no commit has to; skip it while another process is writing.

        The holder of the write lock may append to the log, and SQLite ignores frames that it did not write itself.
        """
        self.use_busy_timeout(False)
        with suppress(sqlite3.Error, OSError), transaction(self.cursor), Path(f"{self.name}-wal").open("ab", 0) as log:
            if log.tell() < _LOG_BYTES:
                log.write(bytes(_LOG_BYTES - log.tell()))
                os.fsync(log.fileno())

    def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs in one transaction, then shrink the file; return by how many bytes."""
        connection = self.writer
        with self.translated_errors():
            before = pragma(connection, "page_count")
            try:
                self._delete(run_ids)
                connection.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError as error:
                if not self._is_full(error):
                    raise
                held = self._reserve.release()
                try:
                    self._delete_on_full_disk(run_ids)
                finally:
                    if held:
                        self._reserve.hold_rest()
            self.require_identity()
            freed = max(0, before - pragma(connection, "page_count")) * pragma(connection, "page_size")
        self._reserve.fill()
        return freed

    def _delete(self, run_ids: Collection[str]) -> None:
        try:
            with transaction(self.cursor) as cursor:
                delete_runs(cursor, run_ids)
        except sqlite3.OperationalError as error:
            if not is_bad_text(error):
                raise
            with lenient_text(self.writer), transaction(self.cursor) as cursor:
                delete_runs(cursor, run_ids)

    def _delete_on_full_disk(self, run_ids: Collection[str]) -> None:
        """Delete runs one at a time within the released reserve, and truncate the log in between."""
        for run_id in run_ids:
            try:
                self._delete([run_id])
            except sqlite3.OperationalError as error:
                if not self._is_full(error):
                    raise
                raise JournalUnavailable(
                    f"The disk of the journal {self.name!r} is full, so that not even run {run_id!r} can be deleted:"
                    f" {_MAKE_ROOM} first."
                ) from error
            while free := pragma(self.writer, "freelist_count"):
                with suppress(sqlite3.OperationalError):  # pages that remain in the file are reused
                    self.writer.executescript(f"PRAGMA incremental_vacuum({_STEP})")
                if pragma(self.writer, "freelist_count") >= free:
                    break
                with suppress(sqlite3.OperationalError):  # the file may have to grow before it can shrink
                    self.writer.executescript("PRAGMA wal_checkpoint(TRUNCATE)")

    def _is_full(self, error: sqlite3.Error) -> bool:
        """Whether an operation failed because the disk is full, which SQLite reports in several ways."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF
        unclear = code in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
        return code == sqlite3.SQLITE_FULL or (unclear and self._reserve.is_needed)

    @contextmanager
    def translated_errors(self) -> Generator[None]:
        """Raise each SQLite error of the block as a journal error."""
        try:
            yield
        except sqlite3.Error as error:
            raise self.journal_error(error) from error
        except UnicodeDecodeError as error:  # the error message of a damaged layout quotes its bytes
            raise self._damaged("its layout can't be read") from error

    def journal_error(self, error: sqlite3.Error) -> JournalError:
        """Translate an SQLite error to a journal error that says what to do."""
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF
        if code in _DAMAGED or is_bad_text(error):
            return self._damaged("a text in it is not UTF-8" if is_bad_text(error) else str(error))
        advice = _ADVICE.get(code, "see that the file can be read and written")
        if code != sqlite3.SQLITE_FULL and self._is_full(error):
            advice = f"the disk is full, so {_MAKE_ROOM} and try again"
        return JournalUnavailable(
            f"The journal {self.name!r} can't be used now ({error}): {advice}; what was recorded before is safe."
        )

    def _damaged(self, why: str) -> JournalCorrupt:
        return JournalCorrupt(
            f"The journal {self.name!r} is damaged or not a journal ({why}): restore a backup, save what is left"
            f" with  sqlite3 {self.name} .recover  or move the file away to begin a new one."
        )


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another connection holds the write lock."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK) & 0xFF == sqlite3.SQLITE_BUSY


class Insert:
    """Inserts rows, many per statement: SQLite then releases the GIL once, not for each row."""

    __slots__ = ("_block", "_least", "_statements")

    def __init__(self, into: str, columns: int, otherwise: str = "") -> None:
        row = f"({', '.join('?' * columns)})"
        self._least, self._block = SINGLE_STATEMENT_ROWS * columns, _BLOCK * columns
        self._statements = {
            rows * columns: f"INSERT INTO {into} VALUES {', '.join([row] * rows)} {otherwise}"
            for rows in (*range(1, SINGLE_STATEMENT_ROWS + 1), _BLOCK)
        }

    def __call__(self, cursor: sqlite3.Cursor, columns: Sequence[Column]) -> int:
        """Insert rows, given as a flat sequence of columns, and return how many were inserted.

        Up to `SINGLE_STATEMENT_ROWS` rows are inserted by one atomic statement; more need a transaction.
        """
        if statement := self._statements.get(len(columns)):
            return cursor.execute(statement, columns).rowcount
        start = added = 0
        while left := len(columns) - start:
            size = self._block if left >= self._block else min(left, self._least)
            added += cursor.execute(self._statements[size], columns[start : start + size]).rowcount
            start += size
        return added


def _create_files(path: Path) -> None:
    """Create the file and its folders, for this user alone."""
    make_folder(path.parent)
    tighten_folder(path.parent, (path.name, f".{path.name}", LOCKS, RESCUE, "profiles"))
    make_own_folder(path.parent / LOCKS)
    make_file(path)
