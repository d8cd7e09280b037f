"""Workers whose database is away: they can be stopped, are not ready, and say it once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from pathlib import Path
from signal import SIGTERM
from subprocess import Popen

import anyio
import httpx2
import psycopg
import pytest
from anyio.to_thread import run_sync

from tests.kit.postgres import schema_url
from tests.kit.postgres_restart import OwnPostgres
from tests.kit.workers import Cluster, WorkerProcess, eventually, opened_cluster

FEW_SECONDS = 7.5


@pytest.fixture(scope="module")
def postgres() -> Generator[OwnPostgres]:
    """A server that each test leaves running."""
    made = OwnPostgres()
    yield made
    made.close()


@pytest.fixture
async def cluster(postgres: OwnPostgres, workers: Popen[str], tmp_path: Path) -> AsyncGenerator[Cluster]:
    async with opened_cluster(schema_url(postgres.url, tmp_path), tmp_path, workers) as made:
        try:
            yield made
        finally:
            await run_sync(postgres.start)


async def test_a_worker_can_be_stopped_although_the_database_is_away(cluster: Cluster, postgres: OwnPostgres) -> None:
    cluster.hold.touch()
    await cluster.submit("one")
    busy = cluster.start("--at-once", "1")
    await eventually(lambda: len(cluster.effects) == 1, "the call begins")
    idle = cluster.start()
    await eventually(lambda: idle.has_said("drives runs of the queue"), "the worker begins")
    await run_sync(postgres.crash)
    idle.send(SIGTERM)
    await _ends(idle)
    busy.send(SIGTERM)
    await eventually(lambda: busy.has_said("stopping"), "the worker drains")
    busy.send(SIGTERM)
    await _ends(busy)


async def test_a_worker_is_not_ready_soon_after_the_database_went_away_and_says_so_once(
    cluster: Cluster, postgres: OwnPostgres
) -> None:
    worker = cluster.start("--port", "0", "--json")
    await eventually(lambda: worker.has_said("drives runs of the queue"), "the worker begins")
    found = re.search(r"http://127\.0\.0\.1:\d+", worker.lines[0])
    assert found is not None
    async with httpx2.AsyncClient(base_url=found[0]) as client:
        assert (await client.get("/readyz")).status_code == 200
        await run_sync(postgres.crash)
        began = time.monotonic()
        while (await client.get("/readyz")).status_code == 200:
            assert time.monotonic() < began + FEW_SECONDS, "it is ready without its database"
            await anyio.sleep(0.05)
        await run_sync(postgres.start)
        await eventually(lambda: worker.has_said("is back"), "the worker connects again")
        assert (await client.get("/readyz")).status_code == 200
    troubles = [one["detail"] for one in map(json.loads, worker.lines) if one["event"] == "trouble"]
    assert [detail.rpartition(" is ")[2] for detail in troubles] == ["away", "back"]


async def test_a_worker_that_starts_while_the_database_is_away_waits_and_says_so_once(
    cluster: Cluster, postgres: OwnPostgres
) -> None:
    await run_sync(postgres.crash)
    worker, stopped = cluster.start("--port", "0"), cluster.start()
    await eventually(lambda: all(one.has_said("waits for the database") for one in (worker, stopped)), "they say it")
    found = re.search(r"http://127\.0\.0\.1:\d+", worker.lines[0])
    assert found is not None
    async with httpx2.AsyncClient(base_url=found[0]) as client:
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/healthz")).status_code == 200
    stopped.send(SIGTERM)
    await _ends(stopped)
    await run_sync(postgres.start)
    await eventually(lambda: worker.has_said("drives runs of the queue"), "the worker begins")
    assert sum("waits for the database" in line for line in worker.lines) == 1
    await cluster.submit("late")
    await cluster.completed("late")


async def test_a_worker_for_which_the_server_has_no_connection_says_so_and_drives_nothing_until_it_has(
    cluster: Cluster, postgres: OwnPostgres
) -> None:
    await cluster.submit("one")
    taken = [psycopg.connect(postgres.url)]
    with suppress(psycopg.OperationalError):
        while True:
            taken.append(psycopg.connect(postgres.url))
    taken.pop().close()  # enough for its first connection alone
    worker = cluster.start("--at-once", "1")
    await eventually(lambda: worker.has_said("too many clients"), "the worker says why it waits")
    assert not worker.has_said("drives")
    for connection in taken:
        connection.close()
    await cluster.completed("one")
    assert sum("too many clients" in line for line in worker.lines) == 1


async def _ends(worker: WorkerProcess) -> None:
    began = time.monotonic()
    while worker.lives:
        assert time.monotonic() < began + FEW_SECONDS, worker.lines
        await anyio.sleep(0.05)
