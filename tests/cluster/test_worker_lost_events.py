"""Workers on a database that loses what it had confirmed."""

from __future__ import annotations

from collections.abc import Generator

import anyio
import psycopg
import pytest

from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.submission import resubmit
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.values.events.run import RunPaused
from tests.kit.postgres_restart import OwnPostgres
from tests.kit.workers import Cluster, eventually


@pytest.fixture
def careless() -> Generator[OwnPostgres]:
    """A server that confirms commits before they are on its disk."""
    server = OwnPostgres()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("ALTER DATABASE postgres SET synchronous_commit = off")
    yield server
    server.close()


async def test_what_is_submitted_waits_for_the_disk(careless: OwnPostgres) -> None:
    client = QueueClient(DatabaseAddress.parse(careless.url))
    try:
        with client.database.engine.connect() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    finally:
        await client.close()


async def test_a_run_whose_events_were_lost_waits_for_a_person_and_can_be_given_back(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("one")
    worker = cluster.start("--at-once", "1")
    await eventually(lambda: len(cluster.effects) == 1, "the call begins")
    known = (await cluster.journal.read("one"))[-1].number
    with psycopg.connect(cluster.journal.address.url, autocommit=True) as connection:
        lost = f"DELETE FROM {cluster.journal.address.schema}.events WHERE run = 'one' AND number = %s"
        connection.execute(lost.encode(), (known,))
    cluster.hold.unlink()
    await eventually(lambda: worker.has_said(f"The journal has lost event {known} of run 'one'"), "it says so")

    async def is_parked() -> bool:
        entry = await cluster.client.find("one")
        return entry is not None and entry.state == "parked"

    for _ in range(200):
        if await is_parked():
            break
        await anyio.sleep(0.05)
    await anyio.sleep(2.5)  # in which workers look twice at what is parked
    assert await is_parked()
    found = await cluster.journal.find("one")
    assert found is not None
    assert (found.status, found.stop_reason) == ("paused", "pause")
    events = await cluster.journal.read("one")
    assert [one.number for one in events] == list(range(1, known + 1))
    assert isinstance(events[-1].fact, RunPaused)
    assert events[-1].fact.why.startswith(f"The journal has lost event {known} of run 'one'")
    await resubmit(cluster.journal, cluster.client, "one")
    await cluster.completed("one")
    await cluster.check("one")
