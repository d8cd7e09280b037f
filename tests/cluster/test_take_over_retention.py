"""Workers delete runs that ended long ago, and nothing else."""

from __future__ import annotations

import psycopg

from teamwright.cluster.take_over import Retention
from tests.kit.placed import PlacedCluster, placed
from tests.kit.workers import eventually

__all__ = ["placed"]


async def test_runs_that_ended_long_ago_are_deleted_with_their_children(placed: PlacedCluster) -> None:
    cluster = placed.cluster
    await placed.submit("parent", width=2)
    await cluster.submit("old", "new")
    worker = cluster.start()
    await cluster.completed("parent", "old", "new")
    await cluster.submit("waits", queue="other")
    with psycopg.connect(cluster.journal.address.url, autocommit=True) as connection:
        aged = f"UPDATE {cluster.journal.address.schema}.runs SET last = last - 3600 WHERE id <> 'new'"
        connection.execute(aged.encode())
    told: list[str] = []
    retention = Retention(cluster.journal, 1800.0, lambda what, run_id="", detail="": told.append(f"{what} {run_id}"))
    assert not await retention.look()
    assert {one.id for one in await cluster.journal.runs()} == {"new", "waits"}
    assert sorted(told) == ["deleted old", "deleted parent"]
    assert worker.lives
    deleting = cluster.start("--keep", "1s", "--queue", "idle")
    await eventually(lambda: deleting.has_said("deletes new"), "a worker deletes it")
