"""The queue: a run and its first drive are one commit, and runs can be parked, put back and limited."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from teamwright.cluster.queue_database import (
    ClaimedDrive,
    QueueDatabase,
    QueueEntry,
    QueueLimits,
    QueueLoad,
    branch_queue,
    check_own_queue,
    queue_watch,
    stored_priority,
)
from teamwright.errors import JournalUnavailable, UsageError
from teamwright.values.turns.results import RunSummary
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
    await cluster.submit("zero", "one", "two")
    await cluster.client.park("one", "it needs another version", retry_after=5.0)
    (parked,) = await cluster.client.entries("parked")
    assert (parked.run_id, parked.queue, parked.reason) == ("one", "default", "it needs another version")
    assert parked.drive is None
    assert parked.due == pytest.approx(await cluster.journal.cluster.now() + 5, abs=4)
    drive = await cluster.client.enqueue(parked)
    assert drive is not None
    assert await cluster.client.enqueue(parked) is None, "it has a drive"
    found = {one.run_id: one for one in await cluster.client.entries("queued")}
    assert found.keys() == {"zero", "one", "two"}
    assert (found["one"].drive, found["one"].reason, found["one"].due) == (drive, "", None)
    assert not await cluster.client.delete_done(-60.0), "these were all"
    await cluster.engine.runs.cancel("one")
    await cluster.client.delete_ended()
    assert await cluster.client.enqueue(parked) is None, "it has ended"
    assert [one.run_id for one in await cluster.client.entries("queued")] == ["zero", "two"]


async def test_a_drive_that_was_replaced_does_not_park_its_run(cluster: Cluster) -> None:
    await cluster.submit("one")
    assert (first := await cluster.client.find("one")) is not None
    assert first.drive is not None
    await cluster.client.park("one")
    parked = await cluster.client.find("one")
    assert parked is not None
    second = await cluster.client.enqueue(parked)
    assert not await cluster.client.park("one", "it is mine", drive=first.drive)
    assert (found := await cluster.client.find("one")) is not None
    assert (found.drive, found.reason) == (second, "")
    assert await cluster.client.park("one", drive=second or "")
    assert not await cluster.client.park("none", drive="none/1")


async def test_a_run_has_one_drive_in_its_queue_although_its_entry_says_that_it_has_none(cluster: Cluster) -> None:
    await cluster.submit("one")
    with psycopg.connect(cluster.journal.address.url, autocommit=True) as connection:
        connection.execute(f"UPDATE {cluster.journal.address.schema}.queued_runs SET drive = NULL".encode())
    (entry,) = await cluster.client.to_enqueue()
    assert await cluster.client.enqueue(entry) is None


async def test_the_drive_of_a_dead_worker_is_cancelled_and_its_run_gets_another_one(cluster: Cluster) -> None:
    await cluster.submit("one", "two")
    found = await cluster.client.find("one")
    assert found is not None
    assert found.drive is not None
    await cluster.client.take_over(ClaimedDrive(found.drive, "one", "worker:1:a"))
    assert (renewed := await cluster.client.find("one")) is not None
    assert renewed.drive not in (found.drive, None)
    await cluster.client.park("two")
    await cluster.client.take_over(ClaimedDrive("two/before", "two", "worker:1:a"))
    assert [one.run_id for one in await cluster.client.entries("parked")] == ["two"], "it was parked before"


async def test_a_run_that_goes_to_one_worker_is_parked_again_where_that_one_does_not_claim_it(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.submit("one")
    await cluster.client.park("one", "it waits", waits=True)
    (parked,) = await cluster.client.entries("parked")
    assert await cluster.client.enqueue(parked, "worker:1:a") is not None
    assert await cluster.client.to_enqueue() == []
    monkeypatch.setattr("teamwright.cluster.queue_client.ADOPT_SECONDS", 0.0)
    (late,) = await cluster.client.to_enqueue()
    assert (late.run_id, late.state) == ("one", "queued")
    await cluster.client.release([late.drive or ""])
    (again,) = await cluster.client.entries("queued", "parked")
    assert (again.state, again.reason, again.waits) == ("parked", "it waits", True)


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
        connection.execute(f"UPDATE {cluster.journal.address.schema}.queued_runs SET since = 0".encode())
    (load,) = await cluster.client.load()
    assert load.oldest is not None
    assert load.oldest > 3600
    await cluster.client.park("one")
    assert [one.oldest for one in await cluster.client.load()] == [None]
    await cluster.client.enqueue(QueueEntry("one", "default", "parked"))
    (load,) = await cluster.client.load()
    assert load.oldest is not None
    assert load.oldest < 3600


async def test_a_queue_has_limits_that_submissions_do_not_change(cluster: Cluster) -> None:
    await cluster.client.queues.limit(QueueLimits("default", at_once=2, per_minute=30))
    await cluster.submit("one")
    assert await cluster.client.queues.list() == [QueueLimits("default", 2, 30)]
    with pytest.raises(UsageError):
        await cluster.client.queues.limit(QueueLimits("default", at_once=0))


def test_a_higher_priority_comes_first_and_then_a_run_that_has_begun() -> None:
    stored = [stored_priority(one, has_begun=has_begun) for one in (5, 0, -5) for has_begun in (True, False)]
    assert stored == sorted(set(stored))


def test_queues_of_child_runs_have_names_that_no_other_queue_has() -> None:
    assert check_own_queue("night") == "night"
    with pytest.raises(UsageError, match="child runs"):
        check_own_queue(branch_queue("night"))


async def test_closing_leaves_no_connection_to_work_that_was_cancelled(cluster: Cluster) -> None:
    queue = QueueDatabase(cluster.journal.address, "closes")
    await queue.open()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(_: object) -> None:
        loop.call_soon_threadsafe(begun.set)
        queue.execute("SELECT pg_sleep(0.5)")

    task = asyncio.create_task(queue.run(work))
    await begun.wait()
    task.cancel()
    await queue.close()
    await _no_connections(cluster, "closes")


async def _no_connections(cluster: Cluster, name: str) -> None:
    shown = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state IS NOT NULL"
    async with await psycopg.AsyncConnection.connect(cluster.journal.address.url, autocommit=True) as connection:
        for _ in range(50):  # a server notices within moments that a connection was closed
            if await (await connection.execute(shown, [name])).fetchone() == (0,):
                return
            await asyncio.sleep(0.02)
    pytest.fail("a connection stays open")


async def test_opening_leaves_no_connection_if_it_is_cancelled_or_fails(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = QueueDatabase(cluster.journal.address, "opens")
    opening = asyncio.create_task(queue.open())
    await asyncio.sleep(0.02)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await _no_connections(cluster, "opens")
    monkeypatch.setattr("dbos.DBOSClient.__init__", _connects_and_fails)
    with pytest.raises(JournalUnavailable, match="no more"):
        await queue.open()
    await _no_connections(cluster, "opens")


def _connects_and_fails(_: object, system_database_engine: sa.Engine, **__: object) -> None:
    with system_database_engine.connect():
        raise OperationalError("SELECT", {}, Exception("no more"))
