"""Children of runs that have ended are cancelled; nothing else is. No test needs a worker."""

from __future__ import annotations

import anyio

from teamwright import Engine
from teamwright.cluster.placement import WorkerPlacement
from teamwright.cluster.queue_database import branch_queue
from teamwright.cluster.take_over import Orphans
from teamwright.errors import JournalUnavailable
from tests.kit.placed import PlacedCluster
from tests.kit.workers import Cluster


async def orphan(cluster: Cluster) -> str:
    """Return a child in the queue whose parent was cancelled while it had no driver."""
    async with Engine(cluster.url, placement=WorkerPlacement()) as engine:
        await engine.start(PlacedCluster(cluster).team(1), "the task", run_id="parent")
        while not (queued := await cluster.client.entries("queued")):  # noqa: ASYNC110 - another engine submits it
            await anyio.sleep(0.02)
    await cluster.engine.runs.cancel("parent")
    return queued[0].run_id


async def test_an_orphan_is_cancelled_again_where_the_database_was_away(cluster: Cluster) -> None:
    child, tries = await orphan(cluster), list[str]()

    async def cancel(run_id: str, reason: str = "", *, wait: bool = True) -> object:
        tries.append(run_id)
        if len(tries) == 1:
            raise JournalUnavailable("away")
        return await cluster.engine.runs.cancel(run_id, reason, wait=wait)

    orphans = Orphans(cluster.journal, cluster.client, cancel)
    try:
        await orphans.cancel()
    except JournalUnavailable:
        await orphans.cancel()
    assert tries == [child, child]
    assert (await cluster.engine.runs.result(child)).status == "cancelled"


async def test_a_run_that_was_submitted_to_a_queue_of_branches_is_no_orphan(cluster: Cluster) -> None:
    await cluster.submit("one", queue=branch_queue("default"))
    await Orphans(cluster.journal, cluster.client, cluster.engine.runs.cancel).cancel()
    assert (await cluster.engine.runs.result("one")).status == "queued"
