"""A cluster is upgraded without downtime: workers of two releases share a journal, and hand runs to each other."""

from __future__ import annotations

from signal import SIGTERM

from tests.kit.workers import Cluster, eventually


async def test_runs_go_from_an_old_worker_to_a_new_one_and_back(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("forth")
    old = cluster.start("--name", "old")
    await eventually(lambda: len(cluster.effects) == 1, "the old worker begins")
    new = cluster.start("--name", "new", newer=True)
    await eventually(lambda: new.has_said("drives runs of the queue"), "the new worker upgrades the journal")
    old.send(SIGTERM)
    await eventually(lambda: old.has_said("stopping"), "the old worker drains")
    cluster.hold.unlink()
    await cluster.completed("forth")
    await cluster.check("forth")
    await eventually(lambda: new.has_said("finished forth"), "the new worker has ended it")

    cluster.hold.touch()
    before = len(cluster.effects)
    await cluster.submit("back")
    await eventually(lambda: len(cluster.effects) == before + 1, "the new worker begins")
    old = cluster.start("--name", "old")
    await eventually(lambda: old.has_said("drives runs of the queue"), "an old worker starts on the new layout")
    new.send(SIGTERM)
    await eventually(lambda: new.has_said("stopping"), "the new worker drains")
    cluster.hold.unlink()
    await cluster.completed("back")
    await cluster.check("back")
    await eventually(lambda: old.has_said("finished back"), "the old worker has ended it")
