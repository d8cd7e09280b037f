"""The queue: a run and its entry are one commit, and entries can be parked, put back and limited."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import psycopg
import pytest

from teamwright.cluster.queue.client import QueueEntry, QueueLimits, QueueLoad
from teamwright.cluster.queue.settings import branch_queue, check_own_queue, queue_schema, queue_watch, stored_priority
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
    assert await cluster.client.find("one") == entry
    assert await cluster.client.find("two") is None


async def test_a_run_without_an_entry_is_not_recorded_either(cluster: Cluster) -> None:
    batch = await cluster.engine.enqueue(cluster.team, "task", queue="default", run_id="one")
    with pytest.raises(UsageError):
        await cluster.client.submit(batch, "not a queue")
    with pytest.raises(UsageError):
        await cluster.client.submit(batch, priority=10**9)
    assert await _find(cluster, "one") is None


async def test_the_id_of_a_deleted_run_can_be_submitted_again(cluster: Cluster) -> None:
    await cluster.submit("one")
    await cluster.engine.runs.cancel("one")
    await cluster.client.park("one")
    await cluster.engine.journal.delete(["one"])
    await cluster.submit("one")
    assert (entry := await cluster.client.find("one")) is not None
    assert entry.state == "queued", "the entry of the deleted run does not stand for the new one"


async def test_the_workers_of_a_queue_are_told_of_new_entries(cluster: Cluster) -> None:
    told = {queue: asyncio.Event() for queue in ("default", "night")}
    with ExitStack() as stack:
        for queue, event in told.items():
            stack.enter_context(cluster.journal.watching(queue_watch(queue), event.set))
        await cluster.submit("one")
        async with asyncio.timeout(30):
            await told["default"].wait()
    assert not told["night"].is_set()


async def test_a_queued_run_can_be_cancelled(cluster: Cluster) -> None:
    await cluster.submit("one")
    result = await cluster.engine.runs.cancel("one")
    assert result.status == "cancelled"


async def test_entries_of_runs_that_have_ended_are_not_counted_and_are_deleted(cluster: Cluster) -> None:
    await cluster.submit("goes-on", "cancelled", "deleted", "parked")
    batch = await cluster.engine.enqueue(cluster.team, "task", queue="night", run_id="late")
    assert await cluster.client.submit(batch, "night", delay=3600)
    await cluster.client.park("parked")
    for run_id in ("cancelled", "deleted", "parked", "late"):
        await cluster.engine.runs.cancel(run_id)
    await cluster.journal.delete(["deleted"])
    assert [(one.queue, one.queued, one.parked) for one in await cluster.client.load()] == [("default", 1, 0)]
    assert not await cluster.client.delete_ended(), "these were all"
    assert [one.run_id for one in await cluster.client.entries("queued", "claimed", "parked")] == ["goes-on"]
    await cluster.submit("deleted")


async def test_an_entry_can_be_parked_and_put_back(cluster: Cluster) -> None:
    await cluster.submit("one", "two")
    await cluster.client.park("one", "it needs another version", retry_after=5.0)
    (parked,) = await cluster.client.entries("parked")
    assert (parked.run_id, parked.queue, parked.reason) == ("one", "default", "it needs another version")
    assert parked.retry_at == pytest.approx(await cluster.journal.now() + 5, abs=4)
    await cluster.client.requeue(parked)
    assert [one.run_id for one in await cluster.client.entries("queued")] == ["one", "two"]
    assert not await cluster.client.delete_done(-60.0), "there is none"
    await cluster.client.delete(["one"])
    with pytest.raises(JournalError, match="one"):
        await cluster.client.requeue(parked)
    assert [one.run_id for one in await cluster.client.entries("queued")] == ["two"]


async def test_a_reason_with_characters_that_the_database_refuses_is_stored_visibly(cluster: Cluster) -> None:
    await cluster.submit("one")
    await cluster.client.park("one", "a\x00b\ud800c")
    (parked,) = await cluster.client.entries("parked")
    assert parked.reason == "a⟨NUL⟩b⟨U+D800⟩c"


async def test_a_run_that_starts_later_does_not_wait_before_its_time(cluster: Cluster) -> None:
    batch = await cluster.engine.enqueue(cluster.team, "task", queue="default", run_id="late")
    assert await cluster.client.submit(batch, delay=3600)
    assert await cluster.client.load() == [QueueLoad("default", queued=1)]


async def test_a_run_that_was_put_back_has_waited_since_then(cluster: Cluster) -> None:
    await cluster.submit("one")
    with psycopg.connect(cluster.journal.address.url, autocommit=True) as connection:
        table = f"{queue_schema(cluster.journal.address)}.workflow_status"
        connection.execute(f"UPDATE {table} SET created_at = 0, updated_at = 0".encode())
    (load,) = await cluster.client.load()
    assert load.oldest is not None
    assert load.oldest > 3600
    await cluster.client.park("one")
    assert [one.oldest for one in await cluster.client.load()] == [None]
    await cluster.client.requeue(QueueEntry("one", "default", "parked"))
    (load,) = await cluster.client.load()
    assert load.oldest is not None
    assert load.oldest < 3600


async def test_a_queue_has_limits_that_submissions_do_not_change(cluster: Cluster) -> None:
    await cluster.client.limit(QueueLimits("default", at_once=2, per_minute=30))
    await cluster.submit("one")
    assert await cluster.client.queues() == [QueueLimits("default", 2, 30)]
    with pytest.raises(UsageError):
        await cluster.client.limit(QueueLimits("default", at_once=0))


def test_a_higher_priority_comes_first() -> None:
    assert stored_priority(5) < stored_priority(0) < stored_priority(-5)


def test_queues_of_child_runs_have_names_that_no_other_queue_has() -> None:
    assert check_own_queue("night") == "night"
    with pytest.raises(UsageError, match="child runs"):
        check_own_queue(branch_queue("night"))
