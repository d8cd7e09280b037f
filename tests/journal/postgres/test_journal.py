import asyncio
from pathlib import Path

import anyio
import psycopg
import pytest

from teamwright.journal.postgres.connection import READERS, Connection
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.testing.journal import JournalConformance
from tests.kit.postgres import schema_url
from tests.kit.postgres_proxy import Proxy


class TestConformance(JournalConformance):
    @pytest.fixture(autouse=True)
    def use_server(self, postgres_server: str) -> None:
        self.server = postgres_server

    def make(self, folder: Path) -> PostgresJournal:
        return PostgresJournal(schema_url(self.server, folder))


async def test_reads_go_on_after_all_connections_were_lost(postgres_server: str, tmp_path: Path) -> None:
    async def wait(connection: Connection) -> None:
        await connection.execute("SELECT pg_sleep(0.1)")

    proxy = Proxy(postgres_server, tmp_path)
    journal = PostgresJournal(schema_url(proxy.url, tmp_path))
    async with proxy.running():
        await journal.open()
        try:
            await asyncio.gather(
                *(journal._pool.use(wait) for _ in range(READERS))
            )  # each needs a connection of its own
            proxy.cut()
            assert await journal.find("run") is None
        finally:
            await journal.close()


async def test_closing_while_cancelled_closes_all_connections(postgres_server: str, tmp_path: Path) -> None:
    journal = PostgresJournal(schema_url(postgres_server, tmp_path))
    await journal.open()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await journal.close()
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, %s)"
    async with (
        await psycopg.AsyncConnection.connect(postgres_server, autocommit=True) as connection,
        asyncio.timeout(20),
    ):
        while await (await connection.execute(sessions, (journal._name,))).fetchone() != (0,):  # noqa: ASYNC110 - of the server
            await asyncio.sleep(0.05)
