"""Workers drive queued runs, hand them back when they are stopped, and go on where others died."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from signal import SIGTERM

from teamwright.cluster.queue.client import QueueLimits
from teamwright.events import Event
from teamwright.teams.load import load_team
from tests.kit.workers import Cluster, eventually

ASKING = """
agents:
  asks: {function: "tests.kit.queued_members:wonder"}
teams:
  one: {strategy: sequential, members: [asks]}
"""


async def test_a_worker_drives_queued_runs_to_their_end(cluster: Cluster) -> None:
    await cluster.submit("one", "two", "three")
    assert {run.status for run in await cluster.engine.runs.list()} == {"queued"}
    followed = asyncio.create_task(_kinds(cluster, "three"))
    cluster.start("--at-once", "2")
    await cluster.completed("one", "two", "three")
    await cluster.check("one", "two", "three")
    kinds = await followed
    assert (kinds[:3], kinds[-1]) == (["run.started", "run.queued", "run.resumed"], "run.ended")


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


async def test_a_run_that_waits_for_a_person_holds_no_slot_and_goes_on_once_it_is_answered(cluster: Cluster) -> None:
    (cluster.folder / "asking.yaml").write_text(ASKING, encoding="utf-8")
    batch = await cluster.engine.enqueue(
        load_team(cluster.folder / "asking.yaml"), "task", queue="default", run_id="asks"
    )
    assert await cluster.client.submit(batch)
    worker = cluster.start("--at-once", "1")
    await eventually(lambda: worker.has_said("paused asks"), "the run waits for a person")
    await cluster.submit("two")
    await cluster.completed("two")
    found = await cluster.engine.runs.find("asks")
    assert found is not None
    assert (found.status, found.stop_reason) == ("paused", "person")
    (key,) = (await cluster.engine.runs.history("asks")).questions()
    await cluster.engine.runs.answer("asks", key, "You may.")
    await cluster.completed("asks")
    assert (await cluster.engine.runs.result("asks")).output == "You may."


async def test_a_queue_limits_the_runs_of_all_workers_together(cluster: Cluster) -> None:
    await cluster.client.limit(QueueLimits("default", at_once=1))
    runs = ["one", "two", "three"]
    await cluster.submit(*runs)
    cluster.start()
    cluster.start()
    await cluster.completed(*runs)
    times = sorted([await _driven(cluster, run) for run in runs])
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times)), "the runs did not overlap"


async def _kinds(cluster: Cluster, run_id: str) -> list[str]:
    """Follow a queued run to its end."""
    return [one.kind async for one in cluster.engine.runs.follow(run_id) if isinstance(one, Event)]


async def _driven(cluster: Cluster, run_id: str) -> tuple[float, float]:
    """When a run had a driver."""
    events = (await cluster.engine.runs.history(run_id)).events
    return next(one.time for one in events if one.kind == "run.resumed"), events[-1].time
