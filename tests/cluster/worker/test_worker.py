"""Workers drive queued runs, hand them back when they are stopped, and go on where others died."""

from __future__ import annotations

from signal import SIGTERM

from tests.kit.workers import Cluster, eventually


async def test_a_worker_drives_queued_runs_to_their_end(cluster: Cluster) -> None:
    await cluster.submit("one", "two", "three")
    assert {run.status for run in await cluster.engine.runs.list()} == {"queued"}
    cluster.start("--at-once", "2")
    await cluster.completed("one", "two", "three")
    await cluster.check("one", "two", "three")


async def test_a_worker_that_is_stopped_lets_calls_finish_and_hands_its_run_back(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("one")
    first = cluster.start()
    await eventually(lambda: len(cluster.effects) == 1, "the call begins")
    first.send(SIGTERM)
    await eventually(lambda: first.has_said("hands back one"), "the worker drains")
    assert first.lives, "the call is still in flight"
    cluster.hold.unlink()
    await eventually(lambda: not first.lives, "the worker ends")
    found = await cluster.engine.runs.find("one")
    assert found is not None
    assert (found.status, found.total_tokens) == ("queued", 15)
    cluster.start()
    await cluster.completed("one")
    await cluster.check("one")
    assert len(cluster.effects) == 4, "no effect was repeated"
