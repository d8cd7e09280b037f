"""Workers whose database is away."""

from __future__ import annotations

import time
from pathlib import Path
from signal import SIGTERM
from subprocess import Popen

import anyio
import pytest
from anyio.to_thread import run_sync

from tests.kit.postgres_restart import OwnPostgres
from tests.kit.workers import WorkerProcess, eventually, opened_cluster

FEW_SECONDS = 10.0


@pytest.mark.timeout(120)
async def test_a_worker_can_be_stopped_although_the_database_is_away(workers: Popen[str], tmp_path: Path) -> None:
    postgres = OwnPostgres()
    try:
        async with opened_cluster(postgres.url, tmp_path, workers) as cluster:
            cluster.hold.touch()
            await cluster.submit("one")
            busy = cluster.start("--at-once", "1")
            await eventually(lambda: len(cluster.effects) == 1, "the call begins")
            idle = cluster.start("--metrics", "0")
            await eventually(lambda: idle.has_said("drives runs of the queue"), "the worker begins")
            await run_sync(postgres.crash)
            idle.send(SIGTERM)
            await _ends(idle)
            busy.send(SIGTERM)
            await eventually(lambda: busy.has_said("stopping"), "the worker drains")
            busy.send(SIGTERM)
            await _ends(busy)
            await run_sync(postgres.start)
    finally:
        postgres.close()


async def _ends(worker: WorkerProcess) -> None:
    began = time.monotonic()
    while worker.lives:
        assert time.monotonic() < began + FEW_SECONDS, worker.lines
        await anyio.sleep(0.05)
