"""What a worker claims: drives of its queues within their limits, and drives for it alone.

The first tests are the contract with DBOS: they fail where an inner name that the adapter uses has changed.
"""

from __future__ import annotations

import tomllib
from asyncio import Event, sleep
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from hashlib import blake2b
from importlib.metadata import version
from inspect import getsource, signature
from typing import Any

import pytest
from dbos._queue import queue_worker_thread
from dbos._sys_db import SystemDatabase
from psycopg.errors import SerializationFailure
from sqlalchemy.exc import OperationalError

from teamwright.cluster import dbos_queue
from teamwright.cluster.dbos_queue import QueueRunner
from teamwright.cluster.queue_database import QueueLimits
from tests.kit.workers import Cluster, eventually
from tests.paths import ROOT

WORKER = "worker:1:a"


class Driver:
    """Notes which runs it is given, and drives each until it may end."""

    def __init__(self) -> None:
        self.driven: list[str] = []
        self.may_end = Event()

    async def drive(self, run_id: str, queue: str, drive: str) -> bool:
        assert drive.startswith(f"{run_id}/")
        self.driven.append(run_id)
        await self.may_end.wait()
        return True


@asynccontextmanager
async def running(cluster: Cluster, driver: Driver, *queues: str, at_once: int = 4) -> AsyncGenerator[QueueRunner]:
    """A runner in this process."""
    for queue in queues:
        await cluster.client.queues.register(queue)
    runner = QueueRunner(cluster.client.database, queues, WORKER, at_once, driver.drive)
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


async def want(cluster: Cluster, runner: QueueRunner, run_id: str) -> None:
    """Give a parked run a drive for the runner alone."""
    entry = await cluster.client.find(run_id)
    assert entry is not None
    drive = await cluster.client.enqueue(entry, WORKER)
    assert drive is not None
    runner.want(drive, entry.queue)


async def looks(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Wait until the runner has looked a few times more for drives."""
    wait, waits = QueueRunner._wait, list[str]()

    def note(runner: QueueRunner, queue: str) -> None:
        waits.append(queue)
        wait(runner, queue)

    monkeypatch.setattr(QueueRunner, "_wait", note)
    await eventually(lambda: all(waits.count(queue) > number for queue in set(waits)) and bool(waits), "it looks")


async def _done(cluster: Cluster, run_id: str) -> None:
    """Wait until the drive of a run has ended."""
    while any(one.run_id == run_id for one in await cluster.client.drives()):  # noqa: ASYNC110 - nothing tells
        await sleep(0.02)


def test_the_inside_of_dbos_is_what_the_adapter_was_written_for() -> None:
    """If this fails, read both functions, change the adapter where needed, and then the digests and the version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"dbos=={version('dbos')}" in project["optional-dependencies"]["cluster"]
    sources = {one.__name__: getsource(one) for one in (queue_worker_thread, SystemDatabase.start_queued_workflows)}
    assert {name: blake2b(text.encode(), digest_size=8).hexdigest() for name, text in sources.items()} == {
        "queue_worker_thread": "b9abd7edd8e2da15",
        "start_queued_workflows": "53b014504a4b68bc",
    }
    assert {"name", "client_system_database"} <= signature(SystemDatabase.get_queue).parameters.keys()


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
    monkeypatch.setattr(dbos_queue, "POLL_SECONDS", 0.05)
    await cluster.client.queues.limit(QueueLimits("default", at_once=1))
    await cluster.submit("one")
    async with running(cluster, driver := Driver(), "default"):
        await eventually(lambda: driver.driven == ["one"], "it looks again as usual")


async def test_a_runner_that_is_woken_looks_at_once(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dbos_queue, "POLL_SECONDS", 600.0)
    async with running(cluster, driver := Driver(), "default", at_once=1) as runner:
        await cluster.submit("one", "two")
        runner.wake()
        await eventually(lambda: driver.driven == ["one"], "it was woken")
        driver.may_end.set()
        await eventually(lambda: driver.driven == ["one", "two"], "the end of a run wakes it as well")


async def test_a_runner_that_is_to_stop_claims_nothing_although_its_look_has_begun(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, read, claim = QueueRunner.launch, SystemDatabase.get_queue, SystemDatabase.start_queued_workflows
    runners, claims = list[QueueRunner](), list[str]()

    def launched(runner: QueueRunner) -> None:
        runners.append(runner)
        launch(runner)

    def stop(system: SystemDatabase, name: str, **options: Any) -> Any:
        """Stop claiming when the thread of the queue has begun to look."""
        for runner in runners:
            runner.at_once = 0
        return read(system, name, **options)

    def note(system: SystemDatabase, queue: Any, *arguments: Any, **options: Any) -> Any:
        claims.append(queue.name)
        return claim(system, queue, *arguments, **options)

    monkeypatch.setattr(QueueRunner, "launch", launched)
    monkeypatch.setattr(SystemDatabase, "get_queue", stop)
    monkeypatch.setattr(SystemDatabase, "start_queued_workflows", note)
    await cluster.submit("one")
    async with running(cluster, driver := Driver(), "default"):
        await eventually(lambda: claims.count("default") > 1, "it has looked")
    assert driver.driven == []
    assert [one.run_id for one in await cluster.client.entries("queued")] == ["one"]


async def test_a_drive_for_one_worker_is_claimed_by_no_other(cluster: Cluster) -> None:
    await park(cluster, "one", "two")
    async with running(cluster, driver := Driver(), "default") as runner:
        await want(cluster, runner, "one")
        await eventually(lambda: driver.driven == ["one"], "it claims its own drive")
        (claimed,) = await cluster.client.drives()
        assert (claimed.run_id, claimed.worker) == ("one", WORKER)
        (entry,) = await cluster.client.entries("parked")
        assert await cluster.client.enqueue(entry, "worker:2:b") is not None
        runner.want("two/another", "default")
        await cluster.submit("three")
        await eventually(lambda: driver.driven == ["one", "three"], "it goes on with its queue")
        driver.may_end.set()
        await _done(cluster, "one")
    assert driver.driven == ["one", "three"]


@pytest.mark.parametrize("limits", [QueueLimits("default", at_once=1), QueueLimits("default", per_minute=1)])
async def test_the_limits_of_a_queue_count_parked_entries_that_were_claimed(
    cluster: Cluster, limits: QueueLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbos_queue, "POLL_SECONDS", 0.05)
    await cluster.client.queues.limit(limits)
    await park(cluster, "one", "two")
    async with running(cluster, driver := Driver(), "default") as runner:
        await want(cluster, runner, "one")
        await eventually(lambda: driver.driven == ["one"], "the first entry is claimed")
        await cluster.submit("three")
        if limits.per_minute:
            driver.may_end.set()
            await _done(cluster, "one")
        await want(cluster, runner, "two")
        await looks(cluster, monkeypatch, 3)
        assert driver.driven == ["one"]
    assert {one.run_id for one in await cluster.client.entries("queued")} >= {"two", "three"}


async def test_a_parked_entry_takes_room_in_its_own_queue_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dbos_queue, "POLL_SECONDS", 0.05)
    await park(cluster, "parent", "other", queue="day")
    async with running(cluster, driver := Driver(), "day", "day.branches", at_once=1) as runner:
        await want(cluster, runner, "parent")
        await eventually(lambda: driver.driven == ["parent"], "the parent is claimed")
        await want(cluster, runner, "other")
        await looks(cluster, monkeypatch, 3)
        await cluster.submit("child", queue="day.branches")
        await eventually(lambda: driver.driven == ["parent", "child"], "its branch is claimed")
        await cluster.client.park("other")
