from pathlib import Path

import anyio

from teamwright.journal.postgres.connection import DatabaseAddress, connect
from teamwright.journal.postgres.journal import PostgresJournal, migrate
from teamwright.journal.postgres.rows import read_inbox, send_item
from teamwright.journal.protocol import Batch
from teamwright.testing.journal import body, commit, event
from teamwright.values.events.agent import AgentReturned
from teamwright.values.people import Pause
from tests.kit.postgres import schema_url


async def test_an_item_is_never_visible_before_one_with_a_lower_id(postgres_server: str, tmp_path: Path) -> None:
    address = DatabaseAddress.parse(schema_url(postgres_server, tmp_path))
    async with await connect(address) as slow, await connect(address) as quick, await connect(address) as reader:
        await migrate(reader, address)
        async with anyio.create_task_group() as tasks, slow.transaction():
            await send_item(slow, address, "run", Pause(by="first"), "slow", "1")
            tasks.start_soon(send_item, quick, address, "run", Pause(by="second"), "quick", "2")
            await anyio.sleep(0.2)
            assert await read_inbox(reader, "run", 0) == [], "the second must wait for the first"
        items = await read_inbox(reader, "run", 0)
    assert [item.intervention for item in items] == [Pause(by="first"), Pause(by="second")]


async def test_an_item_whose_sending_is_repeated_is_there_once(postgres_server: str, tmp_path: Path) -> None:
    address = DatabaseAddress.parse(schema_url(postgres_server, tmp_path))
    async with await connect(address) as connection:
        await migrate(connection, address)
        for sending in ("1", "1", "2"):
            await send_item(connection, address, "run", Pause(), "sender", sending)
        assert len(await read_inbox(connection, "run", 0)) == 2


async def test_a_text_that_a_run_begins_to_use_while_another_is_deleted_stays(
    postgres_server: str, tmp_path: Path
) -> None:
    journal = PostgresJournal(schema_url(postgres_server, tmp_path))
    await journal.open()
    texts = body("shared")

    def batch(run_id: str) -> Batch:
        return Batch([event(run_id, 1, AgentReturned(body=next(iter(texts))))], texts)

    try:
        await commit(journal, batch("run-0"))
        for number in range(1, 15):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(journal.delete, [f"run-{number - 1}"])
                tasks.start_soon(commit, journal, batch(f"run-{number}"))
            assert await journal.bodies(texts) == texts
    finally:
        await journal.close()
