"""The layout of the database file: creates, upgrades and checks it before anything is read.

`PRAGMA user_version` is the number of the layout: how many migrations the database has had. A released migration is
never edited; the next one corrects it, and uses no other code of the project, which may change. A database of an older
layout is upgraded only while no other process has it open.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from teamwright.errors import JournalCorrupt, JournalTooNew, JournalUnavailable
from teamwright.journal.sqlite.queries import pragma, transaction

APPLICATION_ID = 0x7EA3_3117
"""Marks a file as a journal."""

Execute = Callable[..., Any]
"""Executes a statement with parameters and returns its rows."""
Migration = Callable[[Execute], None]


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
