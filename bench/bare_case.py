"""The lower bound on Postgres: one row per turn, each a commit of its own, in one round trip."""

import psycopg

from bench.clock import now
from bench.workload import Database, check, texts


class BareRows:
    """Replies as rows, without anything around."""

    async def chain(self, turns: int, database: Database) -> float:
        replies = texts(turns)
        async with await psycopg.AsyncConnection.connect(str(database), autocommit=True) as connection:
            await connection.execute("DROP TABLE IF EXISTS reply")
            await connection.execute("CREATE TABLE reply (number bigserial PRIMARY KEY, body text NOT NULL)")
            started = now()
            for reply in replies:
                await connection.execute("INSERT INTO reply (body) VALUES (%s)", (reply,), prepare=True)
            seconds = now() - started
            cursor = await connection.execute("SELECT body FROM reply ORDER BY number")
            check([body for (body,) in await cursor.fetchall()], replies)
        return seconds

    async def fan_out(self, members: int, database: Database) -> float:
        raise NotImplementedError
