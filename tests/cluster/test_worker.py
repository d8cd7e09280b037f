"""Workers drive queued runs, hand them back when they are stopped, and go on where others died."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from signal import SIGINT, SIGTERM

import pytest
from anyio.to_thread import run_sync

from teamwright import Event
from teamwright.cli.main import main
from teamwright.cluster.permissions import Permissions
from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.queue_database import QueueLimits
from teamwright.cluster.status import SetAside, WorkerLog, read_set_aside
from teamwright.cluster.submission import prepare_team
from teamwright.cluster.take_over import TakeOver
from teamwright.cluster.worker import Worker
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.teams.team_loader import load_team, read_manifest, source_of
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
    await eventually(lambda: first.has_said("stopping"), "the worker drains")
    assert first.lives, "the call is still in flight"
    assert not first.has_said("hands back one")
    cluster.hold.unlink()
    await eventually(lambda: not first.lives, "the worker ends")
    assert first.has_said("hands back one")
    found = await cluster.engine.runs.find("one")
    assert found is not None
    assert (found.status, found.total_tokens) == ("queued", 15)
    cluster.start()
    await cluster.completed("one")
    await cluster.check("one")
    assert len(cluster.effects) == 4, "no effect was repeated"


async def test_a_second_signal_cuts_calls_off_and_the_run_goes_on_elsewhere(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("one")
    first = cluster.start()
    await eventually(lambda: len(cluster.effects) == 1, "the call begins")
    first.send(SIGTERM)
    await eventually(lambda: first.has_said("stopping"), "the worker drains")
    first.send(SIGINT)
    await eventually(lambda: not first.lives, "the worker ends although the call does not")
    found = await cluster.engine.runs.find("one")
    assert found is not None
    assert found.status == "queued"
    assert [one.state for one in await cluster.client.entries("queued", "claimed", "parked")] == ["queued"]
    cluster.hold.unlink()
    cluster.start()
    await cluster.completed("one")
    await cluster.check("one")
    assert len(cluster.effects) == 5, "only the call that was cut off is repeated"


async def test_a_run_that_was_paused_by_hand_goes_on_where_it_is_resumed(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TEAMWRIGHT_TEST_LEDGER", str(cluster.folder))
    cluster.hold.touch()
    await cluster.submit("here", "there")
    worker = cluster.start()
    await eventually(lambda: len(cluster.effects) == 2, "the calls begin")
    await _pause(cluster, "here", "there")
    cluster.hold.unlink()
    await eventually(lambda: worker.has_said("paused here") and worker.has_said("paused there"), "both are paused")
    code = await run_sync(main, ["runs", "resume", "there", "--submit", "--json", "--journal", cluster.url])
    assert (code, json.loads(capfd.readouterr().out)) == (
        0, {"run_id": "there", "status": "queued", "queue": "default"},
    )  # fmt: skip
    await cluster.completed("there")
    assert await run_sync(main, ["runs", "resume", "here", "--journal", cluster.url]) == 0
    await cluster.check("here", "there")
    await eventually(lambda: worker.has_said("finished there"), "the worker drove the run that was submitted again")
    assert not worker.has_said("finished here")
    assert await run_sync(main, ["runs", "resume", "there", "--submit", "--journal", cluster.url]) == 1


async def test_a_run_that_a_person_pauses_stays_paused_although_its_worker_is_stopped(cluster: Cluster) -> None:
    cluster.hold.touch()
    await cluster.submit("one")
    worker = cluster.start()
    await eventually(lambda: len(cluster.effects) == 1, "the call begins")
    await _pause(cluster, "one")
    worker.send(SIGTERM)
    await eventually(lambda: worker.has_said("stopping"), "the worker drains")
    cluster.hold.unlink()
    await eventually(lambda: not worker.lives, "the worker ends")
    found = await cluster.engine.runs.find("one")
    assert found is not None
    assert (found.status, found.stop_reason) == ("paused", "pause")


async def test_a_run_that_waits_for_a_person_holds_no_slot_and_goes_on_once_it_is_answered(
    cluster: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    await _submit_asking(cluster)
    worker = cluster.start("--at-once", "1")
    await eventually(lambda: worker.has_said("paused asks"), "the run waits for a person")
    await cluster.submit("two")
    await cluster.completed("two")
    found = await cluster.engine.runs.find("asks")
    assert found is not None
    assert (found.status, found.stop_reason) == ("paused", "person")
    assert await run_sync(main, ["runs", "answer", "asks", "You may.", "--journal", cluster.url]) == 0
    assert "a worker of the queue 'default' continues" in capfd.readouterr().err
    await cluster.completed("asks")
    assert (await cluster.engine.runs.result("asks")).output == "You may."


async def test_a_queue_limits_the_runs_of_all_workers_together(cluster: Cluster) -> None:
    await cluster.client.queues.limit(QueueLimits("default", at_once=1))
    runs = ["one", "two", "three"]
    await cluster.submit(*runs)
    cluster.start()
    cluster.start()
    await cluster.completed(*runs)
    times = sorted([await _driven(cluster, run) for run in runs])
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times)), "the runs did not overlap"


async def test_an_unexpected_error_leaves_the_entry_claimed_until_it_is_taken_over(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors, park, look = {"park": ValueError("park"), "look": ValueError("look")}, QueueClient.park, TakeOver.look

    async def park_broken_once(client: QueueClient, run_id: str, *, drive: str, retry_after: float | None) -> bool:
        if error := errors.pop("park", None):
            raise error
        return await park(client, run_id, drive=drive, retry_after=retry_after)

    async def look_broken_once(take_over: TakeOver) -> None:
        if error := errors.pop("look", None):
            raise error
        await look(take_over)

    monkeypatch.setattr(QueueClient, "park", park_broken_once)
    monkeypatch.setattr(TakeOver, "look", look_broken_once)
    monkeypatch.setattr("teamwright.cluster.take_over.LOAD_SECONDS", 0.0)
    await _submit_asking(cluster)
    said: list[str] = []
    allow = Permissions(modules=frozenset(("tests",)))
    async with Worker(PostgresJournal(cluster.url), allow=allow, report=WorkerLog(said.append)) as worker:
        await eventually(lambda: any("takes over asks" in line for line in said), "the entry is taken over")
        await eventually(lambda: said.count("paused asks") == 2, "the run is paused again")
        await worker.drain()
    assert {"ValueError: park", "ValueError: look"} <= set(said)
    assert [one.run_id for one in await cluster.client.entries("parked")] == ["asks"]


async def test_a_submitted_manifest_starts_no_program_that_the_worker_does_not_allow(cluster: Cluster) -> None:
    mark = cluster.folder / "mark"
    shell = f'[sh, -c, "touch {mark}; exit 0"]'
    (cluster.folder / "replies.yaml").write_text("rules: [{reply: done}]\n")
    (cluster.folder / "hostile.yaml").write_text(
        f"agents: {{a: {{model: scripted:replies.yaml, evaluate: {{criteria: [{{id: c, command: {shell}}}]}}}}}}"
    )
    source = source_of(read_manifest([cluster.folder / "hostile.yaml"]))
    prepared = prepare_team(source, cluster.engine.models)
    assert prepared.options == ("--allow program:sh",)
    batch = await cluster.engine.enqueue(
        prepared.team, "go", queue="default", run_id="hostile", files=prepared.files, code=prepared.code
    )
    assert await cluster.client.submit(batch, "default")
    worker = cluster.start()
    reason = "waits for a worker with the program 'sh' allowed (--allow program:sh)"
    await eventually(lambda: worker.has_said(reason), "the worker leaves the run")
    assert not mark.exists()
    while not (aside := await read_set_aside(cluster.client)):  # noqa: ASYNC110 - it is in the database
        await asyncio.sleep(0.02)
    assert aside == [SetAside("hostile", reason)]
    cluster.start("--allow", "program:sh")
    await cluster.completed("hostile")
    assert mark.exists()


async def _pause(cluster: Cluster, *run_ids: str) -> None:
    """Pause runs by hand, and wait until their drivers have accepted it."""
    for run_id in run_ids:
        await cluster.engine.runs.pause(run_id, wait=False)
        while (await cluster.journal.read(run_id))[-1].kind != "run.intervened":  # noqa: ASYNC110 - its driver takes it
            await asyncio.sleep(0.02)


async def _submit_asking(cluster: Cluster) -> None:
    """Submit a run `asks` that asks a person."""
    (cluster.folder / "asking.yaml").write_text(ASKING, encoding="utf-8")
    team = load_team(cluster.folder / "asking.yaml")
    assert await cluster.client.submit(await cluster.engine.enqueue(team, "task", queue="default", run_id="asks"))


async def _kinds(cluster: Cluster, run_id: str) -> list[str]:
    """Follow a queued run to its end."""
    return [one.kind async for one in cluster.engine.runs.follow(run_id) if isinstance(one, Event)]


async def _driven(cluster: Cluster, run_id: str) -> tuple[float, float]:
    """When a run had a driver."""
    events = (await cluster.engine.runs.history(run_id)).events
    return next(one.time for one in events if one.kind == "run.resumed"), events[-1].time
