"""What a worker claims: entries of its queues within their limits, and parked entries that it wants."""

from __future__ import annotations

from asyncio import Event, sleep
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from dbos._sys_db import SystemDatabase
from psycopg.errors import SerializationFailure
from sqlalchemy.exc import OperationalError

from teamwright.cluster.queue import runner as runner_module
from teamwright.cluster.queue.client import QueueLimits
from teamwright.cluster.queue.runner import QueueRunner
from tests.kit.workers import Cluster, eventually


class Driver:
    """Notes which runs it is given, and drives each until it may end."""

    def __init__(self) -> None:
        self.driven: list[str] = []
        self.may_end = Event()

    async def drive(self, run_id: str, queue: str) -> bool:
        self.driven.append(run_id)
        await self.may_end.wait()
        return True


@asynccontextmanager
async def running(cluster: Cluster, driver: Driver, *queues: str, at_once: int = 4) -> AsyncGenerator[QueueRunner]:
    """A runner in this process."""
    for queue in queues:
        await cluster.client.register(queue)
    runner = QueueRunner(cluster.client, queues, "worker:1:a", at_once, driver.drive)
    runner.launch()
    try:
        yield runner
    finally:
        driver.may_end.set()
        for run_id in driver.driven:
            await _done(cluster, run_id)
        await runner.close()


async def park(cluster: Cluster, *run_ids: str, queue: str = "default") -> None:
    await cluster.submit(*run_ids, queue=queue)
    for run_id in run_ids:
        await cluster.client.park(run_id, "it waits for a worker", waits=True)


async def _done(cluster: Cluster, run_id: str) -> None:
    """Wait until the entry of a run is done."""
    while await cluster.client.find(run_id):  # noqa: ASYNC110 - nothing tells
        await sleep(0.02)


async def test_collisions_with_other_workers_do_not_make_it_deaf(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, collisions = SystemDatabase.start_queued_workflows, 12

    def collide(system: SystemDatabase, queue: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal collisions
        if queue.name == "default" and collisions:
            collisions -= 1
            raise OperationalError("", {}, SerializationFailure("overtaken"))
        return claim(system, queue, *arguments, **options)

    monkeypatch.setattr(SystemDatabase, "start_queued_workflows", collide)
    monkeypatch.setattr(runner_module, "POLL_SECONDS", 0.05)
    await cluster.client.limit(QueueLimits("default", at_once=1))
    await cluster.submit("one")
    async with running(cluster, driver := Driver(), "default"):
        await eventually(lambda: driver.driven == ["one"], "it looks again as usual")


async def test_a_runner_that_is_woken_looks_at_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "POLL_SECONDS", 600.0)
    async with running(cluster, driver := Driver(), "default", at_once=1) as runner:
        await cluster.submit("one", "two")
        runner.wake()
        await eventually(lambda: driver.driven == ["one"], "it was woken")
        driver.may_end.set()
        await eventually(lambda: driver.driven == ["one", "two"], "the end of a run wakes it as well")


async def test_a_runner_that_is_to_stop_claims_nothing_although_its_look_has_begun(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, claims = SystemDatabase.start_queued_workflows, list[str]()

    def stop(runner: QueueRunner, queue: str) -> None:
        """Stop claiming when the thread of the queue has begun to look."""
        runner.at_once = 0

    def note(system: SystemDatabase, queue: Any, *arguments: Any, **options: Any) -> Any:
        claims.append(queue.name)
        return claim(system, queue, *arguments, **options)

    monkeypatch.setattr(QueueRunner, "_wait", stop)
    monkeypatch.setattr(SystemDatabase, "start_queued_workflows", note)
    await cluster.submit("one")
    async with running(cluster, driver := Driver(), "default"):
        await eventually(lambda: claims.count("default") > 1, "it has looked")
    assert driver.driven == []
    assert [one.run_id for one in await cluster.client.entries("queued")] == ["one"]


async def test_a_parked_entry_that_is_wanted_is_claimed_and_done_like_any_other(cluster: Cluster) -> None:
    await park(cluster, "one", "two")
    async with running(cluster, driver := Driver(), "default") as runner:
        runner.want("one", "default")
        await eventually(lambda: driver.driven == ["one"], "the parked entry is claimed")
        (claimed,) = await cluster.client.entries("claimed")
        assert (claimed.run_id, claimed.queue, claimed.worker) == ("one", "default", "worker:1:a")
        driver.may_end.set()
        await _done(cluster, "one")
    assert [one.run_id for one in await cluster.client.entries("queued", "claimed", "parked")] == ["two"]


@pytest.mark.parametrize("limits", [QueueLimits("default", at_once=1), QueueLimits("default", per_minute=1)])
async def test_the_limits_of_a_queue_count_parked_entries_that_were_claimed(
    cluster: Cluster, limits: QueueLimits
) -> None:
    await cluster.client.limit(limits)
    await park(cluster, "one", "two")
    async with running(cluster, driver := Driver(), "default") as runner:
        runner.want("one", "default")
        await eventually(lambda: driver.driven == ["one"], "the first entry is claimed")
        await cluster.submit("three")
        if limits.per_minute:
            driver.may_end.set()
            await _done(cluster, "one")
        for _ in range(2):
            runner.want("two", "default")
            await eventually(lambda: not runner.wanted("default"), "it looks once more")
        assert driver.driven == ["one"]
    assert [one.run_id for one in await cluster.client.entries("parked")] == ["two"]
    assert [one.run_id for one in await cluster.client.entries("queued")] == ["three"]


async def test_a_parked_entry_takes_room_in_its_own_queue_alone(cluster: Cluster) -> None:
    await park(cluster, "parent", "other", queue="day")
    async with running(cluster, driver := Driver(), "day", "day.branches", at_once=1) as runner:
        runner.want("parent", "day")
        await eventually(lambda: driver.driven == ["parent"], "the parent is claimed")
        runner.want("other", "day")
        await eventually(lambda: not runner.wanted("day"), "there is no room for another")
        await cluster.submit("child", queue="day.branches")
        await eventually(lambda: driver.driven == ["parent", "child"], "its branch is claimed")
