"""Whatever happens to a worker, its runs go on elsewhere: none is lost, and no recorded effect is repeated."""

from __future__ import annotations

from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP
from subprocess import Popen

import pytest
from anyio.to_thread import run_sync

from teamwright.cluster.queue_database import QueueEntry
from teamwright.cluster.status import WorkerLog
from teamwright.cluster.take_over import TakeOver
from teamwright.errors import JournalUnavailable
from teamwright.teams.team_loader import load_team
from tests.cluster.test_worker import ASKING
from tests.kit.postgres_proxy import Proxy
from tests.kit.postgres_restart import OwnPostgres
from tests.kit.workers import Cluster, eventually, opened_cluster


async def test_runs_of_workers_that_die_at_any_write_are_taken_over(cluster: Cluster) -> None:
    runs = [f"run-{number}" for number in range(8)]
    await cluster.submit(*runs)
    dying = [
        cluster.start("--at-once", "1", "--name", "same", die_at=write, when=when)
        for write, when in ((1, "before"), (1, "after"), (2, "after"), (3, "before"), (4, "after"), (6, "before"))
    ]
    await eventually(lambda: not any(worker.lives for worker in dying), "the workers die")
    first, second = cluster.start("--name", "same"), cluster.start("--name", "same")
    await cluster.completed(*runs)
    await cluster.check(*runs)
    assert first.lives
    assert second.lives
    assert any(worker.has_said("takes over") for worker in (first, second))


async def test_a_suspended_worker_is_fenced_out_when_it_wakes(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("one")
    suspended = cluster.start("--name", "same")
    await eventually(lambda: len(cluster.effects) == 1, "the call begins")
    suspended.send(SIGSTOP)
    await run_sync(cluster.end_session, "one")
    other = cluster.start("--name", "same")
    await eventually(lambda: len(cluster.effects) == 2, "another worker takes over")
    suspended.send(SIGCONT)
    cluster.hold.unlink()
    await cluster.completed("one")
    await cluster.check("one")
    assert not suspended.has_said("finished one")
    await eventually(lambda: suspended.has_said("lost one"), "the suspended worker notices that it lost the run")
    await eventually(lambda: other.has_said("finished one"), "the other worker ends the run")
    other.send(SIGKILL)
    await cluster.submit("two")
    await cluster.completed("two")
    await eventually(
        lambda: suspended.has_said("finished two"), "the worker that was suspended goes on with other runs"
    )


async def test_a_worker_whose_network_drops_everything_silently_is_fenced_out(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    proxy = Proxy(cluster.url, tmp_path_factory.mktemp("proxy"))
    cluster.hold.touch()
    await cluster.submit("one")
    async with proxy.running():
        cut_off = cluster.start(url=f"{proxy.url}&schema={cluster.journal.address.schema}")
        await eventually(lambda: len(cluster.effects) == 1, "the call begins")
        proxy.hold()
        await run_sync(cluster.end_session, "one")
        other = cluster.start()
        await eventually(lambda: len(cluster.effects) == 2, "another worker takes over")
        cluster.hold.unlink()
        await cluster.completed("one")
        proxy.release()
        other.send(SIGKILL)
        await cluster.submit("two")
        await cluster.completed("two")
        await cluster.check("one", "two")
        assert not cut_off.has_said("finished one")


async def test_an_answer_is_not_forgotten_if_the_database_fails_just_then(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cluster.folder / "asking.yaml").write_text(ASKING, encoding="utf-8")
    team = load_team(cluster.folder / "asking.yaml")
    assert await cluster.client.submit(await cluster.engine.enqueue(team, "task", queue="default", run_id="asks"))
    assert (await cluster.engine.resume("asks", team=team)).status == "paused"
    await cluster.client.park("asks")
    take_over = TakeOver(cluster.journal, cluster.client, lambda _: False, WorkerLog(_ignore), Unable().adopt)
    await take_over.look()
    assert [one.state for one in await cluster.client.entries("queued", "parked")] == ["parked"]
    (key,) = (await cluster.engine.runs.history("asks")).questions()
    await cluster.engine.runs.answer("asks", key, "You may.")
    with monkeypatch.context() as broken:
        broken.setattr(cluster.client, "enqueue", _fail)
        with pytest.raises(JournalUnavailable):
            await take_over.look()
    await take_over.look()
    assert [one.state for one in await cluster.client.entries("queued", "parked")] == ["queued"]


async def test_a_run_that_a_worker_can_not_drive_is_not_checked_at_each_look(cluster: Cluster) -> None:
    await cluster.submit("one", "two")
    for run_id in ("one", "two"):
        await cluster.client.park(run_id, "it waits", waits=True)
    unable = Unable()
    take_over = TakeOver(cluster.journal, cluster.client, lambda _: False, WorkerLog(_ignore), unable.adopt)
    for _ in range(3):
        await take_over.look()
    assert unable.asked == ["one", "two"]


async def test_a_run_that_would_not_resume_is_left_as_it_is_until_a_worker_with_other_code_takes_it(
    cluster: Cluster,
) -> None:
    (cluster.folder / "asking.yaml").write_text(ASKING.replace("wonder", "send_and_wonder"), encoding="utf-8")
    team = load_team(cluster.folder / "asking.yaml")
    assert await cluster.client.submit(await cluster.engine.enqueue(team, "task", queue="default", run_id="asks"))
    changed = cluster.start()
    await eventually(lambda: changed.has_said("paused asks"), "the run waits for a person")
    (cluster.folder / "changed").touch()
    before = await cluster.journal.read("asks")
    (key,) = (await cluster.engine.runs.history("asks")).questions()
    await cluster.engine.runs.answer("asks", key, "You may.")
    await eventually(lambda: changed.has_said("can't drive asks"), "the worker finds out that its code is another")
    assert (await cluster.journal.read("asks"), len(cluster.effects)) == (before, 1)
    (cluster.folder / "changed").unlink()
    cluster.start()
    await cluster.completed("asks")
    assert len(cluster.effects) == 1
    assert sum("drives asks" in line for line in changed.lines) == 2, "it was tried once more, and then left alone"


async def test_a_run_that_is_cancelled_leaves_a_queue_that_no_worker_serves(cluster: Cluster) -> None:
    await cluster.submit("one", queue="nobody")
    await cluster.engine.runs.cancel("one")
    take_over = TakeOver(cluster.journal, cluster.client, lambda _: False, WorkerLog(_ignore), Unable().adopt)
    await take_over.look()
    assert await cluster.client.entries("queued") == []


class Unable:
    """A worker that lacks what runs need."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def adopt(self, entry: QueueEntry) -> bool:
        self.asked.append(entry.run_id)
        return False


def _ignore(line: str) -> None:
    pass


async def _fail(entry: QueueEntry) -> None:
    raise JournalUnavailable("The database is away.")


@pytest.mark.timeout(120)
async def test_runs_go_on_after_postgres_was_restarted_also_during_a_take_over(
    workers: Popen[str], tmp_path: Path
) -> None:
    postgres = OwnPostgres()
    runs = [f"run-{number}" for number in range(4)]
    try:
        async with opened_cluster(postgres.url, tmp_path, workers) as cluster:
            cluster.hold.touch()
            await cluster.submit(*runs)
            killed = cluster.start("--at-once", "2")
            await eventually(lambda: len(cluster.effects) == 2, "the calls of the first worker begin")
            other = cluster.start("--at-once", "4")
            await eventually(lambda: len(cluster.effects) == 4, "all calls begin")
            await run_sync(postgres.crash)
            await run_sync(postgres.start)
            killed.send(SIGKILL)
            await eventually(lambda: other.has_said("takes over"), "another worker takes over")
            await run_sync(postgres.crash)
            cluster.hold.unlink()
            await run_sync(postgres.start)
            await cluster.completed(*runs)
            await cluster.check(*runs)
    finally:
        postgres.close()
