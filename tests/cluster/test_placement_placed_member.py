"""A branch on a worker is like one in the process of its run: in a plan, with deadlines, artifacts and failures.

All tests share one worker.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from signal import SIGKILL
from typing import NamedTuple

import pytest

from teamwright import Engine
from teamwright.cluster.placement import WorkerPlacement
from teamwright.cluster.queue_client import QueueClient
from teamwright.errors import JournalUnavailable
from teamwright.journal.protocol import Batch
from teamwright.runtime.placement import notes_team_of
from teamwright.runtime.recorded.reader import read_record
from teamwright.server.app import server_engine
from tests.kit.placed import PlacedCluster
from tests.kit.postgres import schema_url
from tests.kit.queued_members import EFFECTS, TOKENS
from tests.kit.workers import WorkerProcess, eventually, opened_cluster, start_worker


class Shared(NamedTuple):
    """The journal of all tests here, the folder of their members, and their worker."""

    url: str
    folder: Path
    worker: WorkerProcess


@pytest.fixture(scope="module")
def shared(
    postgres_server: str, workers: subprocess.Popen[str], tmp_path_factory: pytest.TempPathFactory
) -> Generator[Shared]:
    """A worker."""
    folder = tmp_path_factory.mktemp("placed")
    url = schema_url(postgres_server, folder)
    worker = start_worker(workers, url, folder, folder / "shared.log")
    yield Shared(url, folder, worker)
    worker.send(SIGKILL)


@pytest.fixture
async def placed(shared: Shared, workers: subprocess.Popen[str]) -> AsyncGenerator[PlacedCluster]:
    """A cluster of which the worker drives everything."""
    async with opened_cluster(shared.url, shared.folder, workers) as cluster:
        yield PlacedCluster(cluster)
        cluster.hold.unlink(missing_ok=True)


async def endings(placed: PlacedCluster, run_id: str) -> list[str]:
    """How the children of a run have ended; one that was stopped before it was submitted counts as cancelled."""
    children = await placed.children(run_id)
    known = [child for child in children if await placed.cluster.engine.runs.find(child) is not None]
    ended = [(await placed.ended(child)).status for child in known]
    return sorted([*ended, *["cancelled"] * (len(children) - len(known))])


async def test_steps_of_a_plan_run_on_workers_with_the_results_that_they_need(placed: PlacedCluster) -> None:
    team = placed.load("""
  outer:
    strategy: dag
    members: [worker]
    dag:
      placement: workers
      steps:
        - {id: left, agent: worker, task: left}
        - {id: right, agent: worker, task: right}
        - {id: both, agent: worker, needs: [left, right], task: "{{ outputs.left }} and {{ outputs.right }}"}
""")
    await placed.submit_team("plan", team)
    result = await placed.ended("plan")
    assert result.output == "left is done and right is done is done"
    assert len(await placed.children("plan")) == 3
    assert result.usage.total_tokens == 3 * EFFECTS * TOKENS


async def test_a_step_that_is_out_of_time_cancels_its_run(placed: PlacedCluster) -> None:
    placed.cluster.hold.touch()
    team = placed.load("""
  outer:
    strategy: dag
    members: [worker]
    dag:
      placement: workers
      steps: [{id: slow, agent: worker, limits: {seconds: 2}}]
""")
    await placed.submit_team("late", team)
    result = await placed.ended("late")
    assert result.failure is not None
    assert result.failure.error == "timeout"
    assert "used up its 2 seconds" in result.failure.message
    assert await endings(placed, "late") == ["cancelled"]


async def test_a_run_that_is_out_of_time_cancels_its_branches(placed: PlacedCluster) -> None:
    placed.cluster.hold.touch()
    team = placed.load("""
  outer:
    strategy: fan_out
    members: [worker]
    limits: {seconds: 2}
    fan_out: {chunks: [a, b], placement: workers}
""")
    await placed.submit_team("over", team)
    assert (await placed.ended("over")).status == "timeout"
    assert await endings(placed, "over") == ["cancelled", "cancelled"]


async def test_the_first_failure_cancels_the_other_branches_where_the_team_says_so(placed: PlacedCluster) -> None:
    placed.cluster.hold.touch()
    team = placed.load("""
  outer:
    strategy: fan_out
    members: [worker, broken]
    fan_out: {chunks: [a, b, c], task: "{{ chunk }}", placement: workers, on_failure: cancel}
""")
    await placed.submit_team("first", team)
    result = await placed.ended("first")
    assert result.status == "failed"
    assert result.failure is not None
    assert "can't do b" in result.failure.message
    assert await endings(placed, "first") == ["cancelled", "cancelled", "failed"]


async def test_what_a_branch_keeps_can_be_opened_in_the_parent(placed: PlacedCluster) -> None:
    team = placed.load("""
  outer:
    strategy: fan_out
    members: [keeper, reader]
    fan_out: {chunks: [a, b], task: "{{ chunk }}", placement: workers, answer: reader}
""")
    await placed.submit_team("kept", team)
    assert (await placed.ended("kept")).output == "the text of a, the text of b"


async def test_what_a_branch_shares_can_be_opened_in_the_next_one(placed: PlacedCluster) -> None:
    team = placed.load("""
  outer:
    strategy: dag
    members: [keeper, opener]
    dag:
      placement: workers
      steps:
        - {id: keep, agent: keeper, task: draft}
        - {id: open, agent: opener, needs: [keep], task: draft}
""")
    await placed.submit_team("handed", team)
    assert (await placed.ended("handed")).output == "the text of draft"


async def test_a_step_on_a_worker_may_write_what_it_owns(placed: PlacedCluster) -> None:
    team = placed.load("""
  outer:
    strategy: dag
    members: [owner]
    dag:
      placement: workers
      steps: [{id: docs, agent: owner, owns: [docs/*]}]
""")
    await placed.submit_team("owned", team)
    assert (await placed.ended("owned")).output == "docs/a"


async def test_notes_of_agents_belong_to_the_outermost_team_also_in_branches_of_branches(placed: PlacedCluster) -> None:
    await placed.submit("nested", width=1, member="inner")
    await placed.ended("nested")
    journal, (inner,) = placed.cluster.journal, await placed.children("nested")
    innermost = await placed.children(inner)
    assert len(innermost) == 2
    for child in (inner, *innermost):
        assert notes_team_of(await read_record(journal, child)) == "outer"
    assert notes_team_of(await read_record(journal, "nested")) == ""


async def test_a_branch_recovers_as_its_team_says(placed: PlacedCluster) -> None:
    before = len(placed.cluster.effects)
    team = placed.load("""
  outer:
    strategy: fan_out
    members: [hasty]
    retry: {times: 1, backoff: 0}
    fallback: hasty
    fan_out: {chunks: [a], placement: workers}
""")
    await placed.submit_team("hasty", team)
    assert (await placed.ended("hasty")).status == "failed"
    assert len(await placed.children("hasty")) == 1, "no member stands in for itself"
    assert len(placed.cluster.effects) == before + 2


async def test_a_branch_whose_run_was_deleted_has_failed(placed: PlacedCluster, shared: Shared) -> None:
    await placed.submit("deleted", width=1, member="curious")
    await eventually(lambda: shared.worker.has_said("paused "), "the child waits")
    (child,) = await placed.children("deleted")
    await placed.cluster.engine.runs.delete(child)
    result = await placed.ended("deleted")
    assert result.failure is not None
    assert f"There is no run {child!r}" in result.failure.message


async def test_a_queue_that_is_away_is_no_failure_of_a_branch(
    placed: PlacedCluster, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(client: QueueClient, batch: Batch, queue: str, *, priority: int = 0) -> bool:
        raise JournalUnavailable("away")

    team = placed.team(2)
    async with Engine(shared.url, placement=WorkerPlacement()) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(QueueClient, "submit", refuse)
            with pytest.raises(JournalUnavailable, match="away"):
                await engine.run(team, "the task", run_id="away")
        assert (await engine.resume("away", team=team)).data == ["part-0 is done", "part-1 is done"]


async def test_a_run_that_waits_for_branches_lets_no_model_stream(placed: PlacedCluster, shared: Shared) -> None:
    placed.cluster.hold.touch()
    before = len(placed.cluster.effects)
    async with Engine(shared.url, placement=WorkerPlacement()) as engine:
        handle = await engine.start(placed.team(1), "the task", run_id="quiet")
        await eventually(lambda: len(placed.cluster.effects) > before, "the child works")
        assert not engine.bus.is_followed("quiet")
        placed.cluster.hold.unlink()
        assert (await handle.result()).data == ["part-0 is done"]


async def test_a_server_places_branches_on_workers(
    placed: PlacedCluster, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAMWRIGHT_JOURNAL", shared.url)
    async with server_engine(None) as engine:
        assert (await engine.run(placed.team(1), "the task", run_id="served")).data == ["part-0 is done"]
