"""What is known of the tokens of models, in the SQLite file of the journal."""

from __future__ import annotations

import sqlite3

from teamwright.journal.sqlite.layout import transaction
from teamwright.journal.sqlite.notes import NotesFile


class SqliteTokenRates:
    """The rates of one journal."""

    def __init__(self, file: NotesFile) -> None:
        self._file = file

    async def load(self, model: str) -> str | None:
        """Return what was saved for a model last."""

        def work(reader: sqlite3.Connection) -> str | None:
            row = reader.execute("SELECT samples FROM token_rates WHERE model = ?", (model,)).fetchone()
            return None if row is None else row[0]

        return await self._file.read_notes(work)

    async def save(self, model: str, samples: str) -> None:
        """Keep this for a model."""

        def work(cursor: sqlite3.Cursor) -> None:
            with transaction(cursor):
                cursor.execute("INSERT OR REPLACE INTO token_rates VALUES (?, ?)", (model, samples))

        await self._file.write_notes(work)
