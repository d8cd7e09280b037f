"""The workers of a cluster, in the database of the journal. What a worker says of itself is JSON here."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from psycopg.types.json import Jsonb

from teamwright.journal.postgres.connection import Connection, UseConnection
from teamwright.values.models import JsonValue

WORKER_TABLES: LiteralString = """
    -- A worker that was not `seen` for a while has died. `data` is what it says of itself.
    CREATE TABLE workers (id text PRIMARY KEY, seen timestamptz NOT NULL, data jsonb NOT NULL);
"""
FORGET_SECONDS = 3600.0
"""How long a worker that died is still listed."""


class WorkerRow(NamedTuple):
    """A worker, and how many seconds ago it was seen, by the database's clock."""

    id: str
    age: float
    data: dict[str, JsonValue]


class PostgresWorkers:
    """The list of workers of one journal."""

    def __init__(self, use: UseConnection) -> None:
        self._use = use

    async def update(self, worker_id: str, data: dict[str, JsonValue]) -> None:
        """Say that a worker lives, and what it does; forget those that died long ago."""

        async def work(connection: Connection) -> None:
            await connection.execute(
                "WITH gone AS (DELETE FROM workers WHERE seen < now() - make_interval(secs => %s))"
                " INSERT INTO workers VALUES (%s, now(), %s)"
                " ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, data = excluded.data",
                (FORGET_SECONDS, worker_id, Jsonb(data)),
            )

        await self._use(work)

    async def remove(self, worker_id: str) -> None:
        """Remove a worker that stopped in order."""

        async def work(connection: Connection) -> None:
            await connection.execute("DELETE FROM workers WHERE id = %s", (worker_id,))

        await self._use(work)

    async def all(self) -> list[WorkerRow]:
        """Return all workers by id, also those that died within the last hour."""

        async def work(connection: Connection) -> list[WorkerRow]:
            cursor = await connection.execute(
                "SELECT id, extract(epoch FROM now() - seen)::float8, data FROM workers ORDER BY id"
            )
            return [WorkerRow(*row) for row in await cursor.fetchall()]

        return await self._use(work)
