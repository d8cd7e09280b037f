"""What is known of the tokens of models, in the database of the journal."""

from __future__ import annotations

from typing import LiteralString

from teamwright.journal.postgres.connection import Connection, UseConnection

TOKEN_RATE_TABLES: LiteralString = """
    -- The latest requests to a model that its tokens per byte are learnt from.
    CREATE TABLE token_rates (model text PRIMARY KEY, samples text NOT NULL);
"""


class PostgresTokenRates:
    """The rates of one journal."""

    def __init__(self, use: UseConnection) -> None:
        self._use = use

    async def load(self, model: str) -> str | None:
        """Return what was saved for a model last."""

        async def work(connection: Connection) -> str | None:
            cursor = await connection.execute("SELECT samples FROM token_rates WHERE model = %s", (model,))
            row = await cursor.fetchone()
            return None if row is None else row[0]

        return await self._use(work)

    async def save(self, model: str, samples: str) -> None:
        """Keep this for a model."""

        async def work(connection: Connection) -> None:
            await connection.execute(
                "INSERT INTO token_rates VALUES (%s, %s) ON CONFLICT (model) DO UPDATE SET samples = excluded.samples",
                (model, samples),
            )

        await self._use(work)
