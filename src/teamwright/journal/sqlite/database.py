"""The SQLite file of the journal: its layout, created or upgraded when it is opened, and its errors, translated.

It never writes to a file that is not a journal. `PRAGMA user_version` is the number of the layout: how many migrations
the database has had. A released migration is never edited; the next one corrects it, and uses no other code of the
project, which may change. A database of an older layout is upgraded only while no other process has it open.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from teamwright.errors import JournalCorrupt, JournalError, JournalTooNew, JournalUnavailable
from teamwright.journal.location import make_file, make_folder, make_own_folder, tighten_folder
from teamwright.journal.sqlite.files import LOCKS, RESCUE, DiskReserve, FileIdentity, save_copy
from teamwright.journal.sqlite.queries import delete_runs, is_bad_text, lenient_text, pragma, transaction

APPLICATION_ID = 0x7EA3_3117
"""Marks a file as a journal."""

Execute = Callable[..., Any]
"""Executes a statement with parameters and returns its rows."""
Migration = Callable[[Execute], None]
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


def create(execute: Execute) -> None:
    """Create the first layout.

    `position` is the run's place times 2³² plus the event's number: one key that clusters a run's events, grows at its
    end, and rejects a number that exists. A run's row is its status at event `number`. Bodies are stored in the rows of
    events, so that most commits write one page; the table `bodies` indexes them when the run's own row is saved, up to
    event `number`. Later ones are only in their rows. `key` identifies the call that wrote a note, and `forgotten` the
    call that removed it; a note that was removed has no text. The full-text index `notes_search` is created with the
    first note.
    """
    execute(
        "CREATE TABLE runs (place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, number INTEGER NOT NULL,"
        " team TEXT NOT NULL, started REAL, status TEXT, stop_reason TEXT, tokens INTEGER NOT NULL, usd REAL,"
        " seconds REAL NOT NULL, since REAL, last REAL, conversation TEXT NOT NULL DEFAULT '',"
        " parent TEXT NOT NULL DEFAULT '', driver TEXT NOT NULL DEFAULT '')"
    )
    execute("CREATE INDEX turns_of_conversation ON runs (conversation, place) WHERE conversation <> ''")
    execute("CREATE INDEX children_of_run ON runs (parent, place) WHERE parent <> ''")
    execute(
        "CREATE TABLE events (position INTEGER PRIMARY KEY, time REAL NOT NULL, scope TEXT NOT NULL,"
        " place TEXT NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL, version INTEGER, bodies TEXT)"
    )
    execute("CREATE TABLE bodies (hash BLOB PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID")
    execute("CREATE TABLE inbox (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, data TEXT NOT NULL)")
    execute("CREATE INDEX inbox_of_run ON inbox (run_id, id)")
    execute(
        "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, memory TEXT NOT NULL, text TEXT NOT NULL,"
        " author TEXT NOT NULL, run_id TEXT NOT NULL, time REAL NOT NULL, key TEXT NOT NULL UNIQUE, forgotten TEXT)"
    )
    execute("CREATE INDEX notes_of_memory ON notes (memory, id) WHERE forgotten IS NULL")
    execute("CREATE TABLE token_rates (model TEXT PRIMARY KEY, samples TEXT NOT NULL) WITHOUT ROWID")


def index_recent_runs(execute: Execute) -> None:
    """Let the runs of a team be listed by status in the order in which it has changed, however many there are."""
    execute("CREATE INDEX recent_runs ON runs (team, status, since, id) WHERE parent = ''")


def add_resume_times(execute: Execute) -> None:
    """Let a paused run say when it goes on by itself."""
    execute("ALTER TABLE runs ADD COLUMN resume_at REAL")


MIGRATIONS: tuple[Migration, ...] = (create, index_recent_runs, add_resume_times)

LAYOUT: dict[str, tuple[str, str | None]] = {
    "runs": (
        "table",
        "place,id,number,team,started,status,stop_reason,tokens,usd,seconds,since,last,conversation,parent,driver,resume_at",
    ),
    "events": ("table", "position,time,scope,place,kind,data,version,bodies"),
    "bodies": ("table", "hash,position"),
    "inbox": ("table", "id,run_id,data"),
    "inbox_of_run": ("index", None),
    "turns_of_conversation": ("index", None),
    "children_of_run": ("index", None),
    "recent_runs": ("index", None),
    "notes": ("table", "id,memory,text,author,run_id,time,key,forgotten"),
    "notes_of_memory": ("index", None),
    "token_rates": ("table", "model,samples"),
}
"""The layout after the last migration: tables with their columns, and indexes."""

SEARCH = "notes_search"
"""The full-text index of the notes, which SQLite keeps in several tables whose names begin with its own."""
CREATE_SEARCH = f"CREATE VIRTUAL TABLE IF NOT EXISTS {SEARCH} USING fts5 (text, content='notes', content_rowid='id')"


def migrate(name: str, version: int, execute: Execute, migrations: tuple[Migration, ...]) -> None:
    """Migrate the database `name` from `version` to the latest layout, within the caller's transaction."""
    if version > len(migrations):
        raise JournalTooNew(
            f"The journal {name!r} has layout {version} and this version of Teamwright knows up to {len(migrations)}:"
            " update Teamwright, or set TEAMWRIGHT_HOME to another folder."
        )
    for number, migration in enumerate(migrations[version:], start=version + 1):
        migration(execute)
        execute(f"PRAGMA user_version = {number}")


def is_older(connection: sqlite3.Connection, name: str) -> bool:
    """Whether a database has an older layout; a new one has none. Raise for a database of another program."""
    connection.execute("BEGIN")  # one snapshot: another process may just be creating it
    version, owner = pragma(connection, "user_version"), pragma(connection, "application_id")
    used = connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None
    connection.execute("COMMIT")
    if owner != APPLICATION_ID and (version or used):
        raise JournalCorrupt(f"{name!r} is a database of another program: give the journal its own file.")
    return 0 < version < len(MIGRATIONS)


def upgrade(name: str, timeout: float) -> None:
    """Upgrade a database of an older layout. Wait for other processes to close it; raise if they don't in time.

    In exclusive locking mode SQLite locks no database that another connection has open, so a driver of the older
    version never meets an unknown layout.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _upgrade(name)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > deadline:
                raise JournalUnavailable(
                    f"The journal {name!r} was written by an older version of Teamwright, and another process still has"
                    " it open, so it can't be upgraded: end that process, whose runs can be resumed, and try"
                    " again."
                ) from error
        time.sleep(random.uniform(0.01, 0.05))  # random, so that competing processes don't collide again


def _upgrade(name: str) -> None:
    """Upgrade without waiting; do nothing where another process has upgraded meanwhile."""
    with closing(sqlite3.connect(name, timeout=0, isolation_level=None)) as alone:
        alone.execute("PRAGMA locking_mode = EXCLUSIVE")
        # A cursor that a traceback references would keep the database open.
        with closing(alone.cursor()) as cursor, transaction(cursor):
            migrate(name, pragma(alone, "user_version"), alone.execute, MIGRATIONS)


def prepare(connection: sqlite3.Connection, name: str, timeout: float) -> None:
    """Create the layout of a new database, safely beside other processes; raise for one of a later version."""
    version = pragma(connection, "user_version")
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    if version <= len(MIGRATIONS) and connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        _switch_to_wal(connection, name, timeout)
    if version == len(MIGRATIONS):
        return
    with transaction(connection.cursor()):
        migrate(name, pragma(connection, "user_version"), connection.execute, MIGRATIONS)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def check_layout(connection: sqlite3.Connection, name: str) -> None:
    """Raise for a database with other tables than a journal's, or with triggers or views, which could run code."""
    rows = connection.execute(
        "SELECT name, type, (SELECT group_concat(name) FROM pragma_table_info(one.name)) FROM sqlite_schema AS one"
        " WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    if {one: (kind, columns) for one, kind, columns in rows if not _is_search(one, kind)} != LAYOUT:
        raise JournalCorrupt(
            f"The journal {name!r} is damaged: it does not have the tables of a journal. Restore a backup, or move the"
            " file away to begin a new one."
        )


def _is_search(name: str, kind: str) -> bool:
    """Whether this is a table of the full-text index, which only journals with notes have."""
    return kind == "table" and (name == SEARCH or name.startswith(f"{SEARCH}_"))


def _switch_to_wal(connection: sqlite3.Connection, name: str, timeout: float) -> None:
    """Switch to WAL mode. SQLite does not wait while another process switches too, so this does."""
    deadline = time.monotonic() + timeout
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
            f"The journal {name!r} is where SQLite can't keep a write-ahead log, as on many network drives:"
            " set TEAMWRIGHT_HOME to a folder on a local disk."
        )


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
