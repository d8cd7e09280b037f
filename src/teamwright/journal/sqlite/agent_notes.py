"""The notes of agents in the SQLite file of the journal.

Their full-text index (FTS5) is created with the first note.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from teamwright.errors import JournalUnavailable
from teamwright.journal.agent_notes import Note, similar_notes
from teamwright.journal.sqlite.layout import CREATE_SEARCH, SEARCH
from teamwright.journal.sqlite.queries import transaction

T = TypeVar("T")

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
