"""Runs that pause until a provider takes calls again go on on a worker by themselves, which holds nothing meanwhile."""

from __future__ import annotations

from signal import SIGKILL

from teamwright.teams.team_loader import load_team
from tests.cluster.test_worker_clocks import HOUR
from tests.kit.workers import Cluster, eventually

LATER = """
agents:
  first: {function: "tests.kit.queued_members:call_later", retry: {backoff: {max: 0.1}, outlast: 1h}}
teams:
  pair: {strategy: sequential, members: [first]}
"""


async def submit(cluster: Cluster) -> None:
    cluster.folder.joinpath("team.yaml").write_text(LATER, encoding="utf-8")
    cluster.team = load_team(cluster.folder / "team.yaml")
    await cluster.submit("one")


async def test_another_worker_goes_on_once_the_provider_takes_calls_again(cluster: Cluster) -> None:
    await submit(cluster)
    first = cluster.start()
    await eventually(lambda: first.has_said("paused one"), "the run pauses")
    found = await cluster.engine.runs.find("one")
    assert found is not None
    assert (found.status, found.stop_reason) == ("paused", "quota")
    assert found.resume_at > found.started_at
    entry = await cluster.client.find("one")
    assert entry is not None
    assert entry.drive is None
    first.send(SIGKILL)
    second = cluster.start(clock=HOUR)  # what counts is the clock of the database
    await cluster.completed("one")
    assert second.has_said("finished one")
    assert len(cluster.effects) == 2, "no call was made before"


async def test_a_worker_that_dies_before_it_parks_the_run_leaves_one_that_makes_no_call_before(
    cluster: Cluster,
) -> None:
    await submit(cluster)
    dying = cluster.start(die_at=2, when="after")
    await eventually(lambda: not dying.lives, "the worker dies")
    last = (await cluster.journal.read("one"))[-1].kind  # of a commit that may have both
    assert last in ("agent.call_failed", "run.paused")
    cluster.start()
    await cluster.completed("one")
    assert len(cluster.effects) == 2
