"""The notes of agents in Postgres. A memory is small, so a search ranks all its notes here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from teamwright.journal.agent_notes import Note, rank_notes
from teamwright.journal.postgres.connection import Connection, DatabaseAddress, UseConnection

LARGEST_ID = 2**63 - 1
"""The largest number that the database stores."""
_NOTE_COLUMNS: LiteralString = "id, memory, text, author, run_id, time"


class PostgresNotes:
    """The notes of one journal."""

    def __init__(self, address: DatabaseAddress, use: UseConnection) -> None:
        self._address, self._use = address, use

    async def add(self, note: Note, *, key: str, most: int) -> Note | None:

        async def work(connection: Connection) -> Note | None:
            async with connection.transaction():
                lock = self._address.lock_key(f"memory\0{note.memory}")
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
                return await _same(connection, note, key) or await _add(connection, note, key, most)

        return await self._use(work)

    async def search(self, memory: str, words: Sequence[str], limit: int) -> list[Note]:
        """Return the notes that contain most of the words, the newest first among equals."""

        async def work(connection: Connection) -> list[Note]:
            statement: LiteralString = (
                f"SELECT {_NOTE_COLUMNS} FROM notes WHERE memory = %s AND forgotten IS NULL ORDER BY id DESC LIMIT %s"
            )
            cursor = await connection.execute(statement, (memory, None if words else limit))
            return [Note(*row) for row in await cursor.fetchall()]

        return rank_notes(await self._use(work), words, limit)

    async def forget(self, memory: str, note: int, *, key: str) -> bool:
        """Remove the text of a note, once for each key."""
        if not 0 < note <= LARGEST_ID:  # a model may invent any number
            return False

        async def work(connection: Connection) -> bool:
            await connection.execute(
                "UPDATE notes SET text = '', forgotten = %s WHERE id = %s AND memory = %s AND forgotten IS NULL",
                (key, note, memory),
            )
            cursor = await connection.execute(
                "SELECT forgotten FROM notes WHERE id = %s AND memory = %s", (note, memory)
            )
            return await cursor.fetchone() == (key,)

        return await self._use(work)

    async def memories(self) -> dict[str, int]:

        async def work(connection: Connection) -> dict[str, int]:
            cursor = await connection.execute(
                'SELECT memory, count(*) FROM notes WHERE forgotten IS NULL GROUP BY memory ORDER BY memory COLLATE "C"'
            )
            return dict(await cursor.fetchall())

        return await self._use(work)


async def _same(connection: Connection, note: Note, key: str) -> Note | None:
    """The note with this key, or with the same text in the same memory."""
    statement: LiteralString = (
        f"SELECT {_NOTE_COLUMNS} FROM notes WHERE key = %(key)s"
        " OR (memory = %(memory)s AND forgotten IS NULL AND text = %(text)s) ORDER BY key <> %(key)s LIMIT 1"
    )
    cursor = await connection.execute(statement, {"key": key, "memory": note.memory, "text": note.text})
    row = await cursor.fetchone()
    return None if row is None else Note(*row)


async def _add(connection: Connection, note: Note, key: str, most: int) -> Note | None:
    cursor = await connection.execute(
        "SELECT count(*) FROM notes WHERE memory = %s AND forgotten IS NULL", (note.memory,)
    )
    row = await cursor.fetchone()
    if row is not None and row[0] >= most:
        return None
    columns = (note.memory, note.text, note.author, note.run_id, note.time)
    cursor = await connection.execute(
        "INSERT INTO notes (memory, text, author, run_id, time, key) VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
        (*columns, key),
    )
    row = await cursor.fetchone()
    return Note(row[0] if row else 0, *columns)
