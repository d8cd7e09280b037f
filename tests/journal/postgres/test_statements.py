"""Prepared statements reach Postgres whole, and what it rejects is an error of that statement alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import psycopg
import pytest

from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.connection import Connection, connect
from teamwright.journal.postgres.statements import PreparedStatements, Statement

INSERT = "INSERT INTO kept VALUES ($1)"


@asynccontextmanager
async def opened(server: str) -> AsyncGenerator[tuple[Connection, PreparedStatements]]:
    async with await connect(DatabaseAddress.parse(server)) as connection:
        await connection.execute("CREATE TEMP TABLE kept (text text)")
        yield connection, PreparedStatements(connection)


async def stored(connection: Connection) -> list[str]:
    return [text for (text,) in await (await connection.execute("SELECT text FROM kept")).fetchall()]


async def test_a_statement_is_prepared_once_and_takes_any_text(postgres_server: str) -> None:
    texts = ["", "plain", 'quotes " and \\', "ünïcode ⛵", "NULL", "{1,2}"]
    async with opened(postgres_server) as (connection, statements):
        for text in texts:
            await statements.execute(Statement(INSERT, [text.encode()], [1]))
        assert await stored(connection) == texts
        prepared = await (await connection.execute("SELECT count(*) FROM pg_prepared_statements")).fetchone()
        assert prepared == (1,)


async def test_a_text_larger_than_the_buffer_of_the_socket_is_sent_whole(postgres_server: str) -> None:
    text = "0123456789" * 2_000_000
    async with opened(postgres_server) as (connection, statements):
        await statements.execute(Statement(INSERT, [text.encode()], [1]))
        assert await stored(connection) == [text]


async def test_a_nul_is_rejected_and_never_cuts_a_text_off(postgres_server: str) -> None:
    async with opened(postgres_server) as (connection, statements):
        with pytest.raises(psycopg.errors.CharacterNotInRepertoire):
            await statements.execute(Statement(INSERT, [b"before\0after"], [1]))
        await statements.execute(Statement(INSERT, [b"next"], [1]))
        assert await stored(connection) == ["next"]


async def test_a_statement_that_is_started_reports_its_error(postgres_server: str) -> None:
    async with opened(postgres_server) as (connection, statements):
        await connection.execute("CREATE UNIQUE INDEX ON kept (text)")
        statement = Statement(INSERT, [b"once"], [1])
        assert not statements.is_prepared(statement)
        await statements.execute(statement)
        assert statements.is_prepared(statement)
        reported: asyncio.Future[psycopg.Error | None] = asyncio.get_running_loop().create_future()
        statements.start(statement, reported.set_result)
        assert isinstance(await reported, psycopg.errors.UniqueViolation)
        statements.release()
        assert await stored(connection) == ["once"]


async def test_a_statement_that_is_cancelled_ends_its_connection(postgres_server: str) -> None:
    async with opened(postgres_server) as (connection, statements):
        task = asyncio.create_task(statements.execute(Statement("SELECT pg_sleep(30)", [], [])))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert connection.closed


async def test_a_session_that_the_server_ends_while_idle_is_noticed_at_the_next_statement(postgres_server: str) -> None:
    async with opened(postgres_server) as (connection, statements), opened(postgres_server) as (other, _):
        statement = Statement(INSERT, [b"text"], [1])
        await statements.execute(statement)
        done: asyncio.Future[psycopg.Error | None] = asyncio.get_running_loop().create_future()
        statements.start(statement, done.set_result)
        assert await done is None
        await other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            await statements.execute(statement)
