from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from teamwright.errors import JournalTooNew
from teamwright.journal.postgres.connection import Connection, DatabaseAddress, connect
from teamwright.journal.postgres.journal import MIGRATIONS, Migration, PostgresJournal, Version, migrate
from teamwright.journal.protocol import Batch
from teamwright.testing.journal import commit, events
from tests.kit.postgres import schema_url

NEXT = Version(1, MIGRATIONS[-1].version.minor + 1)
MINOR = Migration(NEXT, "ALTER TABLE runs ADD COLUMN queue text NOT NULL DEFAULT ''")
MAJOR = Migration(Version(2, 0), "ALTER TABLE events RENAME COLUMN data TO fact")


@pytest.fixture
def address(postgres_server: str, tmp_path: Path) -> DatabaseAddress:
    return DatabaseAddress.parse(schema_url(postgres_server, tmp_path))


@pytest.fixture
async def connection(address: DatabaseAddress) -> AsyncIterator[Connection]:
    async with await connect(address) as connection:
        yield connection


async def test_many_processes_may_create_the_tables_at_once(address: DatabaseAddress) -> None:
    async def open_one() -> None:
        async with await connect(address) as connection:
            assert await migrate(connection, address) == MIGRATIONS[-1].version

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(open_one)


async def test_an_older_program_continues_on_a_newer_minor_layout(
    address: DatabaseAddress, connection: Connection, postgres_server: str, tmp_path: Path
) -> None:
    await migrate(connection, address, (*MIGRATIONS, MINOR))
    assert await migrate(connection, address) == MINOR.version
    journal = PostgresJournal(schema_url(postgres_server, tmp_path))
    await journal.open()
    await commit(journal, Batch(events("run", [1]), {}))
    assert await journal.read("run") == events("run", [1])
    await journal.close()


async def test_a_newer_major_layout_is_refused(address: DatabaseAddress, connection: Connection) -> None:
    await migrate(connection, address, (*MIGRATIONS, MINOR, MAJOR))
    with pytest.raises(JournalTooNew, match=r"layout 2\.0"):
        await migrate(connection, address)


async def test_a_migration_that_fails_changes_nothing(address: DatabaseAddress, connection: Connection) -> None:
    await migrate(connection, address)
    broken = Migration(NEXT, "CREATE TABLE extra (a int); SELECT nothing FROM nowhere")
    with pytest.raises(Exception, match="nowhere"):
        await migrate(connection, address, (*MIGRATIONS, broken))
    assert await migrate(connection, address) == MIGRATIONS[-1].version
    row = await (await connection.execute("SELECT to_regclass('extra')")).fetchone()
    assert row == (None,)


async def test_runs_of_an_older_layout_are_read_after_the_next_step(
    address: DatabaseAddress, connection: Connection, postgres_server: str, tmp_path: Path
) -> None:
    journal = PostgresJournal(schema_url(postgres_server, tmp_path))
    await journal.open()
    await commit(journal, Batch(events("run", [1]), {}))
    await journal.close()
    filled = Migration(NEXT, f"{MINOR.statements}; UPDATE runs SET queue = 'first'")
    for _ in range(2):
        assert await migrate(connection, address, (*MIGRATIONS, filled)) == NEXT
    assert await (await connection.execute("SELECT queue FROM runs")).fetchall() == [("first",)]
    await journal.open()
    assert await journal.read("run") == events("run", [1])
    await journal.close()
