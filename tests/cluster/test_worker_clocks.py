"""Machines whose clocks differ by an hour: the clock of the database alone decides when something is due."""

from __future__ import annotations

import time

import anyio
import psycopg
import pytest

from tests.kit.workers import Cluster, eventually

HOUR = 3600.0


async def status_of(cluster: Cluster, run_id: str) -> str:
    found = await cluster.journal.find(run_id)
    assert found is not None
    return found.status


async def submit_later(cluster: Cluster, run_id: str, delay: float) -> None:
    batch = await cluster.engine.enqueue(cluster.team, run_id, queue="default", run_id=run_id)
    assert await cluster.client.submit(batch, delay=delay)


async def test_a_worker_whose_clock_is_ahead_does_not_start_a_run_before_its_time(cluster: Cluster) -> None:
    await submit_later(cluster, "later", HOUR / 2)
    await submit_later(cluster, "soon", 1.0)
    worker = cluster.start(clock=HOUR)
    await cluster.completed("soon")
    await anyio.sleep(1.5)  # in which it looks again for runs that are due
    assert await status_of(cluster, "later") == "queued"
    assert not worker.has_said("later")


async def test_a_worker_whose_clock_is_behind_starts_a_run_in_time(cluster: Cluster) -> None:
    await submit_later(cluster, "soon", 1.0)
    cluster.start(clock=-HOUR)
    await cluster.completed("soon")


async def test_the_clock_of_the_machine_that_submits_does_not_count(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_clock = time.time
    monkeypatch.setattr(time, "time", lambda: own_clock() + HOUR)
    await submit_later(cluster, "soon", 1.0)
    monkeypatch.setattr(time, "time", lambda: own_clock() - HOUR)
    await submit_later(cluster, "later", HOUR / 2)
    monkeypatch.undo()
    cluster.start()
    await cluster.completed("soon")
    assert await status_of(cluster, "later") == "queued"


@pytest.mark.parametrize("clock", [HOUR, -HOUR], ids=["ahead", "behind"])
async def test_a_run_that_was_set_aside_is_tried_again_in_time(cluster: Cluster, clock: float) -> None:
    await cluster.submit("one")
    await cluster.client.park("one", "it could not go on", retry_after=HOUR / 2)
    worker = cluster.start(clock=clock)
    await eventually(lambda: worker.has_said("drives runs of the queue"), "the worker begins")
    await anyio.sleep(2.5)  # in which it looks twice at what is parked
    entry = await cluster.client.find("one")
    assert entry is not None
    assert entry.state == "parked"
    with psycopg.connect(cluster.journal.address.url, autocommit=True) as connection:
        (now,) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone() or (0.0,)
    assert entry.due == pytest.approx(now + HOUR / 2, abs=60)
    await cluster.client.park("one", "it could not go on", retry_after=0.5)
    await cluster.completed("one")
