"""A lead in the middle: rounds without a barrier, workers that share the work, and no messages between workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import anyio
import pytest

from teamwright.errors import ManifestError, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.strategies.registry import find_strategy
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamMessageSent, TeamPlanned
from teamwright.values.people import RemoveMember
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import RUN_ID, TASK, contents, run, speakers


def steps(*rows: str) -> list[Any]:
    """Steps such as `c a b`, which is c and needs a and b."""
    return [{"id": row.split()[0], "needs": row.split()[1:]} for row in rows]


def team(fakes: FakeMembers, rows: list[Any], names: str = "lead x y", **more: Any) -> Team:
    options = {"steps": rows, **more.pop("options", {})}
    return Team("t", members=fakes.members(names), strategy="star_team", options=options, **more)


def messages(events: list[Any]) -> int:
    return sum(len(event.fact.to) * event.fact.count for event in events if isinstance(event.fact, TeamMessageSent))


@pytest.mark.parametrize(("workers", "rounds"), [(1, 3), (2, 2), (4, 3)])
async def test_each_worker_has_three_messages_with_its_lead_in_a_round(workers: int, rounds: int) -> None:  # Z-13
    """As many as the topology model says, where every worker has a step in every round."""
    names = ["lead", *(f"w{number}" for number in range(workers))]
    rows = [f"s{one}-{number} " + " ".join(f"s{one - 1}-{n}" for n in range(workers) if one) for one in range(rounds)
            for number in range(workers)]  # fmt: skip
    fakes = FakeMembers()
    result, events = await run(team(fakes, steps(*rows), " ".join(names)))
    assert result.status == "completed"
    assert messages(events) == 2 * workers * rounds + workers * rounds
    assert Counter(fakes.calls) == {"lead": rounds + 1, **dict.fromkeys(names[1:], rounds)}
    planned = next(event.fact for event in events if isinstance(event.fact, TeamPlanned))
    assert (planned.rounds, planned.width, planned.lead) == (rounds, workers, "lead")


async def test_a_worker_receives_the_batch_the_leads_instructions_and_what_its_step_needs() -> None:  # Z-08, Z-13
    fakes = FakeMembers()
    await run(team(fakes, steps("a", "b", "c a")))
    _, last = next((name, turn) for name, turn in reversed(fakes.received) if turn.purpose == "work")
    batch, word, need = last.history
    assert (batch.name, word.name, need.name) == ("lead", "lead", "a")
    assert batch.content.endswith('artifacts: "task://c"\nneeds: "batch-0"\nnext_action: "start-batch"')
    assert "Batch 1" in batch.content
    assert last.task == TASK
    assert "# b:" not in last.prompt


async def test_the_lead_receives_every_result_once_and_writes_the_answer() -> None:
    fakes = FakeMembers()
    result, _ = await run(team(fakes, steps("a", "b", "c a b"), share="transcript"))
    assert [message.name for message in fakes.last_turn("lead").history] == ["lead", "a", "b", "lead", "c"]
    assert speakers(result)[-1] == "lead"
    assert result.output == "lead is done"


async def test_a_round_waits_for_no_other_round() -> None:  # Z-13
    """`slow` ends only when `last`, two rounds behind it, is done."""
    fakes, done = FakeMembers(), asyncio.Event()

    async def answer(turn: Turn) -> str:
        step = next(line for line in turn.prompt.splitlines() if "task://" in line)
        if "task://slow" in step and turn.task == "slow":
            await done.wait()
        if turn.task == "last":
            done.set()
        return f"{turn.task} is done"

    rows: list[Any] = [
        {"id": "first", "task": "first"}, {"id": "slow", "task": "slow"},
        {"id": "next", "task": "next", "needs": ["first"]}, {"id": "last", "task": "last", "needs": ["next"]},
    ]  # fmt: skip
    members = [fakes.member("lead"), fakes.member("x", answer), fakes.member("y", answer)]
    with anyio.fail_after(10):
        result, _ = await run(Team("t", members=members, strategy="star", options={"steps": rows}))
    assert result.status == "completed"


async def test_a_step_goes_to_its_member_or_to_the_least_loaded_one() -> None:  # Z-13
    fakes = FakeMembers()
    rows: list[Any] = [{"id": "a", "agent": "y"}, {"id": "b", "agent": "y"}, *steps("c", "d", "x")]
    await run(team(fakes, rows, "lead x y z", options={"max_parallel": 5}))
    assert Counter(name for name, turn in fakes.received if turn.purpose == "work") == {"y": 2, "x": 2, "z": 1}


async def test_a_lead_works_on_steps_that_name_it_without_telling_itself() -> None:
    fakes = FakeMembers()
    rows: list[Any] = [{"id": "a", "agent": "lead"}, {"id": "b", "needs": ["a"]}]
    result, events = await run(team(fakes, rows, "lead x"))
    assert result.status == "completed"
    assert fakes.calls == ["lead", "lead", "x", "lead"]
    assert messages(events) == 3


async def test_a_failed_step_is_reported_to_the_lead_only_where_failures_are_collected() -> None:
    for policy, told in (("collect", True), ("skip", False)):
        fakes = FakeMembers()
        members = [fakes.member("lead"), fakes.member("x", Refused("trouble")), fakes.member("y")]
        rows: list[Any] = [{"id": "a", "agent": "x"}, {"id": "b", "agent": "y"}]
        result, _ = await run(
            Team("t", members=members, strategy="star_team", options={"steps": rows, "on_failure": policy})
        )
        assert result.status == "degraded"
        assert any("This step failed" in text for text in contents(fakes.last_turn("lead").history)) == told
        assert not fakes.any_received("trouble")


async def test_a_lead_that_fails_begins_nothing_more_and_loses_nothing() -> None:
    fakes = FakeMembers()

    def lead(turn: Turn) -> object:
        return Refused("no") if turn.number == 2 else None

    members = [fakes.member("lead", lead), *fakes.members("x y")]
    result, _ = await run(Team("t", members=members, strategy="star_team", options={"steps": steps("a", "b", "c a")}))
    assert (result.status, speakers(result)) == ("failed", ["x", "y"])
    assert Counter(fakes.calls) == {"lead": 2, "x": 1, "y": 1}


def test_a_star_needs_a_member_besides_the_lead_and_each_once() -> None:
    fakes = FakeMembers()
    with pytest.raises(ManifestError, match="'star_team' needs a member besides 'lead', who leads"):
        team(fakes, steps("a"), "lead")
    x = fakes.member("x")
    with pytest.raises(ManifestError, match="takes each member once, but one is listed twice"):
        Team("t", members=[fakes.member("lead"), x, x], strategy="star_team", options={"steps": steps("a")})


@pytest.mark.parametrize(
    ("short", "name"),
    [("lead", "lead_subagent"), ("star", "star_team"), ("mesh", "mesh_team"), ("mesh-team", "mesh_team")],
)
def test_topologies_are_found_by_their_short_names(short: str, name: str) -> None:  # Z-13
    assert find_strategy(short).name == name


@pytest.mark.experts
async def test_a_lead_leaves_after_what_it_has_handed_out_wherever_the_run_is_cut() -> None:
    row: dict[str, Any] = {"id": "a", "parallel": "competitive_parallel", "agents": ["x", "y"], "merge": "fusion"}
    fakes, journal = FakeMembers(), MemoryJournal()
    made = team(fakes, [row])
    async with Engine(journal) as engine:
        await engine.run(made, TASK, run_id=RUN_ID)
    events = await journal.read(RUN_ID)
    asked = next(event.number for event in events if event.kind == "agent.asked" and event.key.endswith("hand-out"))
    await journal.send(RUN_ID, RemoveMember(member="lead"))
    result, _ = await cut_and_resume(made, asked, journal)
    assert result.status == "completed"
