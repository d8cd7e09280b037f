"""The layout of the database file: creates, upgrades and checks it before anything is read.

A database of an older layout is upgraded only while no other process has it open.
"""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing

from teamwright.errors import JournalCorrupt, JournalUnavailable
from teamwright.journal.sqlite.migrations import LAYOUT, MIGRATIONS, SEARCH, migrate

APPLICATION_ID = 0x7EA3_3117
"""Marks a file as a journal."""


class transaction:  # noqa: N801 - it is used as a function
    """A transaction that acquires the write lock at its start, so that its commit can't fail for lack of it."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def __enter__(self) -> sqlite3.Cursor:
        return self._cursor.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._cursor.execute("COMMIT")
        finally:
            if self._cursor.connection.in_transaction:
                self._cursor.execute("ROLLBACK")


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
            migrate(name, pragma(alone, "user_version"), alone.execute)


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
        migrate(name, pragma(connection, "user_version"), connection.execute)
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


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return the integer value of a pragma."""
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
