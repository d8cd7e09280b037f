"""The state of a cluster is read from the database alone."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM

import pytest

from teamwright.cluster.status import LOST_SECONDS, SHOW_SECONDS, ClusterStatus, read_set_aside, read_status
from teamwright.journal.postgres.rate_limits import PostgresPaces
from teamwright.values.value import JsonValue
from tests.kit.workers import Cluster, eventually


async def _status(cluster: Cluster) -> ClusterStatus:
    return await read_status(cluster.journal, cluster.client)


async def test_it_lists_workers_queues_and_the_age_of_the_oldest_run(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("one", "two", "three")
    await cluster.submit("other", queue="slow")
    worker = cluster.start("--at-once", "2", "--name", "w1")
    await eventually(lambda: len(cluster.effects) == 2, "two runs are driven")
    found = await _status(cluster)
    assert found.open_runs == 4
    assert found.oldest is not None
    assert 0 <= found.oldest < 60
    queues = {one.name: (one.queued, one.claimed) for one in found.queues}
    assert queues == {"default": (1, 2), "default.branches": (0, 0), "slow": (1, 0)}
    (shown,) = found.workers
    assert (shown.name, shown.queue, shown.state, shown.at_once) == ("w1", "default", "ready", 2)
    cluster.hold.unlink()
    await cluster.completed("one", "two", "three")
    assert worker.lives


async def test_a_worker_that_died_is_lost_and_one_that_stopped_is_gone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    died, stopped = cluster.start("--name", "died"), cluster.start("--name", "stopped")
    for worker in (died, stopped):
        await eventually(lambda worker=worker: worker.has_said("drives runs of the queue"), "it starts")
    died.send(SIGKILL)
    stopped.send(SIGTERM)
    await eventually(lambda: not (died.lives or stopped.lives), "both are gone")
    monkeypatch.setattr("teamwright.cluster.status.LOST_SECONDS", 0.0)
    assert [(one.name, one.state) for one in (await _status(cluster)).workers] == [("died", "lost")]
    assert LOST_SECONDS > 2 * SHOW_SECONDS, "a worker is seen twice before it is lost"


async def test_it_shows_the_models_in_use_with_the_limits_of_all_processes(cluster: Cluster) -> None:
    ask: dict[str, JsonValue] = {
        "model": "digest", "name": "openai:small", "concurrency": 8, "requests": 60, "tokens": None, "in_flight": 2,
        "held": 2, "want": 1, "waiting": 1, "head": 10, "waiting_tokens": 10, "used": [], "answers": 0,
    }  # fmt: skip
    stores = PostgresPaces(cluster.journal.address), PostgresPaces(cluster.journal.address)
    for holder, store in enumerate(stores):
        await store.renew(str(holder), 1, [ask])
        await store.close()
    (model,) = (await _status(cluster)).models
    assert (model.name, model.processes, model.in_flight, model.waiting) == ("openai:small", 2, 4, 2)
    assert (model.at_once, model.requests_per_minute, model.tokens_per_minute) == (8, 60, None)
    assert not model.cooldown


async def test_runs_that_no_worker_will_drive_by_itself_come_first(cluster: Cluster) -> None:
    await cluster.submit("one", "two", "three")
    await cluster.client.park("one", "waits for a worker with a module", waits=True)
    await cluster.client.park("two")
    await cluster.client.park("three", "The journal has lost event 9")
    assert [one.run_id for one in await read_set_aside(cluster.client)] == ["three", "one"]
