"""The layout of the database file: created, brought up to date, and checked before anything is read.

A database of an older layout is changed only while nobody else has it open.
"""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import closing

from teamwright.errors import JournalCorrupt, JournalUnavailable
from teamwright.journal.sqlite.migrations import LAYOUT, MIGRATIONS, migrate

APPLICATION_ID = 0x7EA3_3117
"""Marks a file as a journal."""


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


def is_older(connection: sqlite3.Connection, name: str) -> bool:
    """Whether a database has an older layout than this version's; one that is new has none. Refuses any other file."""
    connection.execute("BEGIN")  # all that is looked at here is of one moment: another process may just be creating it
    version, owner = pragma(connection, "user_version"), pragma(connection, "application_id")
    used = connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is not None
    connection.execute("COMMIT")
    if owner != APPLICATION_ID and (version or used):
        raise JournalCorrupt(f"{name!r} is a database of another program: give the journal a file of its own.")
    return 0 < version < len(MIGRATIONS)


def upgrade(name: str, patience: float) -> None:
    """Bring a database of an older layout up to date; waits for others to close it, and refuses in words if they don't.

    In this locking mode SQLite gives way to nobody and takes no database that another connection has open, so a driver
    of the older version never finds a layout that it does not know.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            return _upgrade(name)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() > deadline:
                raise JournalUnavailable(
                    f"The journal {name!r} was written by an older version of Teamwright, and another process still has"
                    " it open, so it can't be brought up to date: end that process, whose runs can be resumed, and try"
                    " again."
                ) from error
        time.sleep(random.uniform(0.01, 0.05))  # whoever else wants the same must not always come at the same time


def _upgrade(name: str) -> None:
    """Upgrade at once or not at all; where somebody else has done so meanwhile, there is nothing to do."""
    with closing(sqlite3.connect(name, timeout=0, isolation_level=None)) as alone:
        alone.execute("PRAGMA locking_mode = EXCLUSIVE")
        # A cursor that an error holds on to would keep the database open.
        with closing(alone.cursor()) as pen, transaction(pen):
            migrate(name, pragma(alone, "user_version"), alone.execute)


def prepare(connection: sqlite3.Connection, name: str, patience: float) -> None:
    """Give a new database its layout, whoever else may be doing the same; refuse one of a later version."""
    version = pragma(connection, "user_version")
    if version == 0:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    if version <= len(MIGRATIONS) and connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        _switch_to_wal(connection, name, patience)
    if version == len(MIGRATIONS):
        return
    with transaction(connection.cursor()):
        migrate(name, pragma(connection, "user_version"), connection.execute)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def check_layout(connection: sqlite3.Connection, name: str) -> None:
    """Refuse a database that has other tables than a journal, or triggers and views, which would run with its data."""
    rows = connection.execute(
        "SELECT name, type, (SELECT group_concat(name) FROM pragma_table_info(one.name)) FROM sqlite_schema AS one"
        " WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall()
    if {one: (kind, columns) for one, kind, columns in rows} != LAYOUT:
        raise JournalCorrupt(
            f"The journal {name!r} is damaged: it has not the tables that a journal has. Restore a backup, or move the"
            " file away to begin a new one."
        )


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


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """A number that the database tells of itself."""
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
