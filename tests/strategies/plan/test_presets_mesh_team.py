"""Workers that receive each other's results after every round."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from teamwright.errors import ManifestError, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamMessageSent
from teamwright.values.people import EditPlan, RestorePlan
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers
from tests.kit.runs import RUN_ID, TASK, contents, run, speakers
from tests.strategies.plan.test_presets_star_team import messages, steps


def team(fakes: FakeMembers, rows: list[Any], names: str = "lead x y", **more: Any) -> Team:
    options = {"steps": rows, **more.pop("options", {})}
    return Team("t", members=fakes.members(names), strategy="mesh_team", options=options, **more)


@pytest.mark.parametrize(("workers", "rounds"), [(2, 1), (2, 3), (4, 2)])
async def test_each_worker_has_two_messages_with_its_lead_and_one_with_every_other_in_a_round(
    workers: int, rounds: int
) -> None:  # Z-13
    names = ["lead", *(f"w{number}" for number in range(workers))]
    rows = [f"s{one}-{number}" for one in range(rounds) for number in range(workers)]
    fakes = FakeMembers()
    result, events = await run(team(fakes, steps(*rows), " ".join(names)))
    assert result.status == "completed"
    assert messages(events) == 2 * workers * rounds + workers * (workers - 1) * rounds
    assert Counter(fakes.calls) == {"lead": 1, **dict.fromkeys(names[1:], 2 * rounds)}


async def test_all_members_receive_all_results_before_the_next_round_begins() -> None:  # Z-13
    fakes = FakeMembers()
    members = [
        fakes.member("lead"),
        *(fakes.member(name, lambda turn, name=name: f"{name} {turn.purpose}") for name in ("x", "y")),
    ]
    rows: list[Any] = [{"id": "a", "agent": "x"}, {"id": "b", "agent": "y"}, {"id": "c", "agent": "x", "needs": ["a"]}]
    await run(Team("t", members=members, strategy="mesh", share="transcript", options={"steps": rows}))
    heard = [contents(turn.history) for _, turn in fakes.received if turn.purpose == "coordinate"]
    assert heard[:2] == [["x work", "y work"]] * 2
    last = next(turn for name, turn in reversed(fakes.received) if name == "x" and turn.purpose == "work")
    assert contents(last.history)[1:] == ["x coordinate", "y coordinate", "x work"]
    assert last.task == TASK
    assert contents(fakes.last_turn("lead").history) == [
        "x work", "y work", "x coordinate", "y coordinate", "x work", "x coordinate", "y coordinate",
    ]  # fmt: skip


async def test_rounds_of_talk_may_be_several_or_none() -> None:
    for rounds_of_talk, asks in ((0, 0), (2, 4)):
        fakes = FakeMembers()
        _, events = await run(team(fakes, steps("a", "b"), options={"rounds_of_talk": rounds_of_talk}))
        assert sum(turn.purpose == "coordinate" for name, turn in fakes.received if name != "lead") == asks
        assert messages(events) == 4 + rounds_of_talk * 2


async def test_talk_that_fails_is_a_warning_and_the_work_continues() -> None:
    fakes = FakeMembers()

    def x(turn: Turn) -> object:
        return Refused("trouble") if turn.purpose == "coordinate" else None

    members = [fakes.member("lead"), fakes.member("x", x), fakes.member("y")]
    result, _ = await run(Team("t", members=members, strategy="mesh_team", options={"steps": steps("a", "b")}))
    assert (result.status, speakers(result)) == ("degraded", ["x", "y", "lead"])
    assert len(result.warnings) == 1
    assert not fakes.any_received("trouble")


async def test_a_round_in_which_everything_is_skipped_is_no_reason_to_talk() -> None:
    fakes = FakeMembers()
    rows: list[Any] = [{"id": "a", "when": "task == ''"}, {"id": "b", "when": "task == ''"}]
    result, _ = await run(team(fakes, rows))
    assert (result.status, fakes.calls) == ("degraded", [])
    assert result.warnings == ("t: every step was skipped",)


async def test_what_was_said_after_a_round_is_no_reason_to_talk_after_the_next() -> None:
    fakes = FakeMembers()
    skipped = [{"id": name, "needs": ["a", "b"], "when": "task == ''"} for name in ("c", "d")]
    _, events = await run(team(fakes, [*steps("a", "b"), *skipped], options={"rounds_of_talk": 2}))
    assert Counter(fakes.calls) == {"x": 3, "y": 3, "lead": 1}
    assert {event.fact.round for event in events if isinstance(event.fact, TeamMessageSent)} == {1}


async def test_messages_after_a_round_are_passed_to_the_next_round_only() -> None:
    fakes = FakeMembers()
    members = [fakes.member(name, lambda turn, name=name: f"{name} {turn.purpose}") for name in ("lead", "x", "y")]
    rows: list[Any] = [
        {"id": "a", "agent": "x"},
        {"id": "b", "agent": "lead", "needs": ["a"]},  # no member needs it, so there is no peer round after this one
        {"id": "c", "agent": "y", "needs": ["b"]},
    ]
    await run(Team("t", members=members, strategy="mesh", share="transcript", options={"steps": rows}))
    second, third = (turn for _, turn in fakes.received[3:5])
    assert contents(second.history)[1:] == ["x coordinate", "y coordinate", "x work"]
    assert contents(third.history)[1:] == ["lead work"]


def test_a_mesh_needs_two_besides_the_lead() -> None:
    with pytest.raises(ManifestError, match="'mesh_team' needs 2 members besides 'lead', who leads"):
        team(FakeMembers(), steps("a"), "lead x")


async def test_steps_that_a_person_puts_back_are_worked_on_in_another_round() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    rows = [{"id": "a", "agent": "x"}, {"id": "b", "agent": "y", "needs": ["a"]}]
    await journal.send(RUN_ID, EditPlan(plan={"remove": ["b"]}))

    async def restore(_: Turn) -> None:
        await journal.send(RUN_ID, RestorePlan(plan_version=1))

    members = [fakes.member("lead"), fakes.member("x", restore), fakes.member("y")]
    options: dict[str, Any] = {"steps": rows, "rounds_of_talk": 0, "evaluate": {}}
    made = Team("t", members=members, strategy="mesh_team", options=options)
    async with Engine(journal) as engine:
        result = await engine.run(made, TASK, run_id=RUN_ID)
    assert (result.status, fakes.calls) == ("completed", ["x", "y", "lead"])
