"""Prepared statements reach Postgres whole, and what it rejects is an error of that statement alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from teamwright.journal.postgres.connection import Connection, DatabaseAddress, connect
from teamwright.journal.postgres.driver_connection import PreparedStatements, Statement
from tests.kit.split_replies import SplitReplies

INSERT = "INSERT INTO kept VALUES ($1)"


@asynccontextmanager
async def opened(server: str) -> AsyncGenerator[tuple[Connection, PreparedStatements]]:
    async with await connect(DatabaseAddress.parse(server)) as connection:
        await connection.execute("CREATE TEMP TABLE kept (text text)")
        yield connection, PreparedStatements(connection)


async def stored(connection: Connection) -> list[str]:
    return [text for (text,) in await (await connection.execute("SELECT text FROM kept")).fetchall()]


def started(statements: PreparedStatements, statement: Statement) -> asyncio.Future[psycopg.Error | None]:
    """Start a statement; the future gets its error, or None."""
    reported: asyncio.Future[psycopg.Error | None] = asyncio.get_running_loop().create_future()
    statements.start(statement, reported.set_result)
    return reported


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
        assert isinstance(await started(statements, statement), psycopg.errors.UniqueViolation)
        statements.release()
        assert await stored(connection) == ["once"]


async def test_a_statement_that_can_not_be_sent_is_reported_once(postgres_server: str) -> None:
    class Broken:
        def __init__(self, line: object) -> None:
            self._line = line

        def __getattr__(self, name: str) -> object:
            return getattr(self._line, name)

        def flush(self) -> int:
            raise psycopg.OperationalError("broken pipe")

    async with opened(postgres_server) as (connection, statements):
        statement = Statement(INSERT, [b"text"], [1])
        await statements.execute(statement)
        statements._line = Broken(connection.pgconn)  # pyright: ignore[reportAttributeAccessIssue]
        reports: list[psycopg.Error | None] = []
        statements.start(statement, reports.append)
        await asyncio.sleep(0.05)
        assert [str(one) for one in reports] == ["broken pipe"]
        assert connection.closed


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
        assert await started(statements, statement) is None
        await other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        with pytest.raises(psycopg.OperationalError):
            await statements.execute(statement)


@asynccontextmanager
async def in_parts(server: str, folder: Path, part: int) -> AsyncGenerator[tuple[Connection, PreparedStatements]]:
    """Statements whose replies arrive in parts of so many bytes; the event loop is never blocked by one."""
    replies = SplitReplies(server, folder)
    async with replies.running(), opened(replies.url) as (connection, statements):
        replies.split(part)
        yield connection, statements
        statements.release()
    assert not replies.is_blocked
    assert replies.parts


@pytest.mark.parametrize("part", [1, 7])
async def test_replies_that_arrive_in_parts_are_read_as_they_arrive(
    postgres_server: str, tmp_path: Path, part: int
) -> None:
    async with in_parts(postgres_server, tmp_path, part) as (connection, statements):
        for text in ("prepared", "executed"):
            await statements.execute(Statement(INSERT, [text.encode()], [1]))
        for number in range(4):
            assert await started(statements, Statement(INSERT, [b"started %d" % number], [1])) is None
        statements.release()
        assert await stored(connection) == ["prepared", "executed", *(f"started {number}" for number in range(4))]


async def test_an_error_that_arrives_in_parts_is_an_error_of_its_statement_alone(
    postgres_server: str, tmp_path: Path
) -> None:
    async with in_parts(postgres_server, tmp_path, 1) as (connection, statements):
        await connection.execute("CREATE UNIQUE INDEX ON kept (text)")
        once = Statement(INSERT, [b"once"], [1])
        await statements.execute(once)
        with pytest.raises(psycopg.errors.UniqueViolation, match="already exists"):
            await statements.execute(once)
        assert isinstance(await started(statements, once), psycopg.errors.UniqueViolation)
        assert await started(statements, Statement(INSERT, [b"next"], [1])) is None
        with pytest.raises(psycopg.errors.UndefinedTable):
            await statements.execute(Statement("SELECT 1 FROM nowhere", [], []))
        assert await stored(connection) == ["once", "next"]


async def test_notices_and_rows_that_arrive_in_parts_do_not_end_a_statement(
    postgres_server: str, tmp_path: Path
) -> None:
    async with in_parts(postgres_server, tmp_path, 1) as (connection, statements):
        await connection.execute(
            "CREATE FUNCTION pg_temp.noted(said text) RETURNS SETOF text LANGUAGE plpgsql AS $$"
            " BEGIN RAISE NOTICE '%', said; RETURN NEXT said; RAISE NOTICE 'end'; RETURN NEXT 'end'; END $$"
        )
        heard: list[str | None] = []
        connection.add_notice_handler(lambda notice: heard.append(notice.message_primary))
        noted = "SELECT pg_temp.noted($1)"
        await statements.execute(Statement(noted, [b"one"], [1]))
        assert await started(statements, Statement(noted, [b"two"], [1])) is None
        assert heard == ["one", "end", "two", "end"]
        await statements.execute(Statement(INSERT, [b"after"], [1]))
        assert await stored(connection) == ["after"]
