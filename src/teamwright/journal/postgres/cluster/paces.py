"""The shares of processes in the rate limits of models, in the database of the journal."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import psycopg
from psycopg.types.json import Jsonb

from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.connection import Connection, connect, cut, translated_errors
from teamwright.values.models import JsonValue

RENEWAL_SECONDS = 2.0
"""How long a renewal may take before its connection counts as lost."""


class PostgresPaces:
    """Renews shares over a connection of its own, so that slow reads never delay a renewal."""

    def __init__(self, address: DatabaseAddress) -> None:
        self._address = address
        self._connection: Connection | None = None

    async def connect(self) -> None:
        """Connect, unless it is connected; raises `JournalError`."""
        with translated_errors(self._address):
            if self._connection is None:
                self._connection = await connect(self._address)

    async def renew(self, holder: str, number: int, asked: JsonValue) -> JsonValue:
        """Renew the shares of a process, and return what it is given; raises `JournalError`."""
        with translated_errors(self._address):
            try:
                async with asyncio.timeout(RENEWAL_SECONDS):
                    connection = self._connection = self._connection or await connect(self._address)
                timer = asyncio.get_running_loop().call_later(RENEWAL_SECONDS, cut, connection)
                try:
                    cursor = await connection.execute(
                        "SELECT renew_pace(%s, %s, %s)", (holder, number, Jsonb(asked)), prepare=True
                    )
                    row = await cursor.fetchone()
                finally:
                    timer.cancel()
            except BaseException:
                await self.close()
                raise
        return row[0] if row else []

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()
