"""Branches that are placed on workers: the same results as in one process, each once, also if a worker dies."""

from __future__ import annotations

from signal import SIGKILL, SIGTERM

import pytest

from teamwright.events import AgentCalled, RunStarted
from teamwright.runtime.placement import child_run_id
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.testing.model_server import ModelServer, Say
from teamwright.values.limits import Limits
from tests.kit.placed import PlacedCluster, placed
from tests.kit.queued_members import EFFECTS, TOKENS
from tests.kit.workers import eventually

__all__ = ["placed"]


async def test_results_of_placed_branches_are_in_order(placed: PlacedCluster) -> None:
    await placed.submit("one", width=6)
    placed.cluster.start("--at-once", "1")
    placed.cluster.start("--at-once", "2")
    await placed.cluster.completed("one")
    await placed.check("one", width=6)


async def test_workers_that_die_at_any_write_change_nothing(placed: PlacedCluster) -> None:
    for run_id in ("one", "two"):
        await placed.submit(run_id, width=3)
    dying = [
        placed.cluster.start("--at-once", "2", die_at=write, when=when)
        for write, when in ((1, "after"), (2, "before"), (3, "after"), (4, "before"), (5, "after"), (7, "after"))
    ]
    await eventually(lambda: not any(worker.lives for worker in dying), "the workers die")
    placed.cluster.start("--at-once", "2")
    placed.cluster.start("--at-once", "2")
    await placed.cluster.completed("one", "two")
    for run_id in ("one", "two"):
        await placed.check(run_id, width=3, of=("one", "two"))


async def test_a_parent_attaches_to_its_children_after_its_worker_died(placed: PlacedCluster) -> None:
    placed.cluster.hold.touch()
    await placed.submit("one", width=2, limits=Limits(tokens=40_000, calls=20))
    first = placed.cluster.start()
    await eventually(lambda: len(placed.cluster.effects) == 2, "both children work")
    first.send(SIGKILL)
    second = placed.cluster.start()
    await eventually(lambda: len(placed.cluster.effects) == 4, "the children are taken over")
    placed.cluster.hold.unlink()
    await placed.cluster.completed("one")
    assert second.has_said("takes over one")
    history = await placed.cluster.engine.runs.history("one")
    attempts = [event.fact.attempt for event in history.events if isinstance(event.fact, AgentCalled)]
    assert attempts == [1, 1, 2, 2], "the second attempt of each call attached to the child of the first"
    spent = history.record.charges.by_scope[""].cost
    assert spent.tokens <= 40_000
    assert spent.calls == 2 * EFFECTS + 2, (
        "a call of a child that was in doubt counts, a child that was attached to does not"
    )


async def test_children_spend_what_their_parent_has_reserved_for_them(placed: PlacedCluster) -> None:
    await placed.submit("one", width=4, limits=Limits(tokens=4 * EFFECTS * TOKENS * 20, calls=4 * EFFECTS))
    placed.cluster.start()
    await placed.cluster.completed("one")
    await placed.check("one", width=4)
    for child in await placed.children("one"):
        started = (await placed.cluster.engine.runs.history(child)).events[0].fact
        assert isinstance(started, RunStarted)
        assert started.limits is not None
        assert (started.limits.tokens, started.limits.calls) == (EFFECTS * TOKENS * 20, EFFECTS)
    history = await placed.cluster.engine.runs.history("one")
    assert history.record.charges.by_scope[""].cost[::2] == (4 * EFFECTS * TOKENS, 4 * EFFECTS)


async def test_a_budget_that_is_too_small_refuses_calls_in_the_children(placed: PlacedCluster) -> None:
    await placed.submit("one", width=2, limits=Limits(calls=2), more=", on_failure: collect")
    placed.cluster.start()
    result = await placed.ended("one")
    assert len(placed.cluster.effects) == 2
    assert result.data == [None, None]
    history = await placed.cluster.engine.runs.history("one")
    assert history.record.charges.by_scope[""].cost.calls == 2


AGGREGATED = """\
agents:
  worker: {{model: house, instructions: "{instructions}"}}
  editor: {{model: house, instructions: "{instructions}"}}
models:
  house: {{url: "{url}", name: house, price: {{input: 1.25, output: 10}}}}
teams:
  wide:
    strategy: fan_out
    members: [worker]
    fan_out: {{placement: {placement}, max_parallel: 6, answer: editor, chunks: [{chunks}]}}
"""


@pytest.mark.parametrize("unit", ["tokens", "usd"])
async def test_a_limited_team_with_an_aggregator_does_on_workers_what_it_does_here(
    placed: PlacedCluster, unit: str
) -> None:
    """Six at once with long instructions: a sixth of the limit pays for no request of a child."""
    engine, chunks = placed.cluster.engine, ", ".join(f"part {number}" for number in range(6))

    def team(placement: str) -> Team:
        path = placed.cluster.folder / f"{placement}.yaml"
        instructions = "Say in a word what it is about. " * 12
        text = AGGREGATED.format(url=server.url, placement=placement, chunks=chunks, instructions=instructions)
        path.write_text(text, encoding="utf-8")
        return load_team(path)

    with ModelServer(lambda _: Say(text="It is about the food in the house.")) as server:
        free = await engine.run(team("here"), "the task")
        need = free.usage.total_tokens if unit == "tokens" else free.usage.usd or 0
        limits = Limits.model_validate({unit: need * 2})
        here = await engine.run(team("here"), "the task", limits=limits)
        await placed.submit_team("there", team("workers"), limits)
        placed.cluster.start("--at-once", "2")
        placed.cluster.start("--at-once", "2")
        there = await placed.ended("there")
        children = [await engine.runs.find(child) for child in await placed.children("there")]
    assert (here.status, there.status) == ("completed", "completed"), (here.warnings, there.warnings)
    assert (there.output, there.messages) == (here.output, here.messages)
    assert (there.usage.total_tokens if unit == "tokens" else there.usage.usd or 0) <= need * 2
    assert sum(bool(one and one.driver) for one in children) == 6, "a worker drove each branch"


async def test_cancelling_a_parent_cancels_its_children(placed: PlacedCluster) -> None:
    placed.cluster.hold.touch()
    await placed.submit("one", width=2)
    placed.cluster.start()
    await eventually(lambda: len(placed.cluster.effects) == 2, "both children work")
    await placed.cluster.engine.runs.cancel("one")
    for child in await placed.children("one"):
        assert (await placed.ended(child)).status == "cancelled"


async def test_children_of_a_parent_that_was_cancelled_without_a_driver_are_cancelled(placed: PlacedCluster) -> None:
    placed.cluster.hold.touch()
    await placed.submit("one", width=2)
    first = placed.cluster.start()
    await eventually(lambda: len(placed.cluster.effects) == 2, "both children work")
    first.send(SIGKILL)
    await eventually(lambda: not first.lives, "the worker dies")
    children = await placed.children("one")
    assert (await placed.cluster.engine.runs.cancel("one")).status == "cancelled"
    placed.cluster.start()
    for child in children:
        assert (await placed.ended(child)).status == "cancelled"


async def test_a_branch_that_is_a_team_places_its_own_branches_on_a_worker_with_room_for_one(
    placed: PlacedCluster,
) -> None:
    await placed.submit("one", width=2, member="inner")
    placed.cluster.start("--at-once", "1")
    await placed.cluster.completed("one")
    result = await placed.cluster.engine.runs.result("one")
    assert result.usage.total_tokens == 4 * EFFECTS * TOKENS
    runs = await placed.cluster.engine.runs.list()
    assert len(runs) == 1 + 2 + 4


async def test_a_question_in_a_branch_is_answered_there(placed: PlacedCluster) -> None:
    await placed.submit("one", width=1, member="curious")
    worker = placed.cluster.start()
    await eventually(lambda: worker.has_said("paused "), "the child waits")
    (child,) = await placed.children("one")
    ((key, _),) = (await placed.cluster.engine.runs.history(child)).questions().items()
    await placed.cluster.engine.runs.answer(child, key, "fine")
    await placed.cluster.completed("one")
    assert (await placed.cluster.engine.runs.result("one")).data == ["part-0: fine"]


async def test_a_worker_that_is_stopped_hands_a_waiting_parent_back_at_once(placed: PlacedCluster) -> None:
    await placed.submit("one", width=1, member="curious")
    worker = placed.cluster.start()
    await eventually(lambda: worker.has_said("paused "), "the child waits")
    worker.send(SIGTERM)
    await eventually(lambda: not worker.lives, "the worker ends")
    found = await placed.cluster.engine.runs.find("one")
    assert found is not None
    assert found.status == "queued"


async def test_fifty_branches_run_on_one_worker(placed: PlacedCluster) -> None:
    await placed.submit("one", width=50)
    placed.cluster.start("--at-once", "16")
    await placed.cluster.completed("one")
    await placed.check("one", width=50)


async def test_a_run_that_was_submitted_under_the_id_of_a_child_is_not_its_result(placed: PlacedCluster) -> None:
    await placed.submit("probe", width=1)
    first = placed.cluster.start()
    await placed.cluster.completed("probe")
    first.send(SIGKILL)
    await eventually(lambda: not first.lives, "the worker dies")
    (key,) = [
        event.key
        for event in (await placed.cluster.engine.runs.history("probe")).events
        if isinstance(event.fact, AgentCalled)
    ]
    await placed.submit("one", width=1)
    seed = (await placed.cluster.engine.runs.history("one")).started.seed
    foreign = child_run_id("one", seed, key)
    await placed.cluster.submit(foreign)
    placed.cluster.start()
    result = await placed.ended("one")
    assert result.status == "failed"
    assert result.failure is not None
    assert f"There is a run {foreign!r} which has the id of this branch" in result.failure.message
    await placed.cluster.completed(foreign)
