"""The queue: a run and its entry are one commit, and entries can be parked, put back and limited."""

from __future__ import annotations

from time import time

import pytest

from teamwright.cluster.queue.client import QueueLimits
from teamwright.cluster.queue.settings import stored_priority
from teamwright.errors import JournalError, UsageError
from teamwright.values.results import RunSummary
from tests.kit.workers import Cluster


async def _find(cluster: Cluster, run_id: str) -> RunSummary | None:
    return await cluster.engine.runs.find(run_id)


async def test_a_run_is_submitted_once_with_its_entry(cluster: Cluster) -> None:
    batch = await cluster.engine.enqueue(cluster.team, "task", queue="night", run_id="one")
    assert await cluster.client.submit(batch, "night", priority=5)
    assert not await cluster.client.submit(batch, "night"), "the second submission of an id does nothing"
    (entry,) = await cluster.client.entries("queued")
    assert (entry.run_id, entry.queue, entry.priority) == ("one", "night", 5)
    found = await _find(cluster, "one")
    assert found is not None
    assert found.status == "queued"
    assert not await cluster.client.entries("queued", queue="default")


async def test_a_run_without_an_entry_is_not_recorded_either(cluster: Cluster) -> None:
    batch = await cluster.engine.enqueue(cluster.team, "task", queue="default", run_id="one")
    with pytest.raises(UsageError):
        await cluster.client.submit(batch, "not a queue")
    with pytest.raises(UsageError):
        await cluster.client.submit(batch, priority=10**9)
    assert await _find(cluster, "one") is None


async def test_a_queued_run_can_be_cancelled(cluster: Cluster) -> None:
    await cluster.submit("one")
    result = await cluster.engine.runs.cancel("one")
    assert result.status == "cancelled"


async def test_an_entry_can_be_parked_and_put_back(cluster: Cluster) -> None:
    await cluster.submit("one", "two")
    await cluster.client.park("one", "it needs another version", retry_at=5.0)
    (parked,) = await cluster.client.entries("parked")
    assert (parked.run_id, parked.queue, parked.reason, parked.retry_at) == (
        "one", "default", "it needs another version", 5.0,
    )  # fmt: skip
    await cluster.client.requeue(parked)
    assert [one.run_id for one in await cluster.client.entries("queued")] == ["one", "two"]
    await cluster.client.delete_done(time() + 60)
    await cluster.client.delete(["one"])
    with pytest.raises(JournalError, match="one"):
        await cluster.client.requeue(parked)
    assert [one.run_id for one in await cluster.client.entries("queued")] == ["two"]


async def test_a_queue_has_limits_that_submissions_do_not_change(cluster: Cluster) -> None:
    await cluster.client.limit(QueueLimits("default", at_once=2, per_minute=30))
    await cluster.submit("one")
    assert await cluster.client.queues() == [QueueLimits("default", 2, 30)]
    with pytest.raises(UsageError):
        await cluster.client.limit(QueueLimits("default", at_once=0))


def test_a_higher_priority_comes_first() -> None:
    assert stored_priority(5) < stored_priority(0) < stored_priority(-5)
