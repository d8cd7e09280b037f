from pathlib import Path

import anyio

from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import Batch
from teamwright.testing.journal import body, commit, event
from teamwright.values.events.agent import AgentReturned
from tests.kit.postgres import schema_url


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
