"""A phase in parts: side by side, put together by the lead, and what is done stays done."""

from __future__ import annotations

from typing import Any

from teamwright.errors import Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.strategies.plan.steps.crew import ASSEMBLE
from teamwright.values.events.team import TeamPlanChanged
from teamwright.values.turns.turn import Turn
from tests.kit.collaboration import SPLIT, collaboration, deciding, facts, steps_of
from tests.kit.members import FakeMembers
from tests.kit.runs import RUN_ID, TASK, contents, run, speakers

PARTS = [{"id": "one", "agent": "a", "task": "Do one."}, {"id": "two", "agent": "b", "task": "Do two."}]
STEPS: list[Any] = [{"id": "draft", "parallel": SPLIT, "parts": PARTS}]


async def test_parts_run_side_by_side_and_the_lead_puts_them_together() -> None:
    fakes = FakeMembers()
    result, events = await run(collaboration(fakes, STEPS))
    assert result.status == "completed"
    assert fakes.most_in_flight == 2
    assert sorted(fakes.calls[:2]) == ["a", "b"]
    assert fakes.calls[2:] == ["lead", "lead"]
    assembly = next(turn for name, turn in fakes.received if name == "lead")
    assert [message.name for message in assembly.history] == ["one", "two"]
    assert contents(assembly.history) == ["a is done", "b is done"]
    assert ASSEMBLE in assembly.task
    assert TASK in assembly.task
    assert speakers(result) == ["a", "b", "lead", "lead"]
    assert steps_of(events) == ["draft starts", "draft completed"]


async def test_each_part_has_its_own_task() -> None:
    fakes = FakeMembers()
    await run(collaboration(fakes, STEPS))
    assert {name: turn.task for name, turn in fakes.received[:2]} == {"a": "Do one.", "b": "Do two."}


async def test_without_parts_the_lead_splits_the_task_and_the_plan_says_how() -> None:
    fakes = FakeMembers()
    split = {"put": [{"id": "draft", "parallel": SPLIT, "parts": PARTS}], "reason": "two halves"}
    lead = fakes.member("lead", deciding(put=split))
    result, events = await run(
        collaboration(fakes, [{"id": "draft", "parallel": SPLIT, "agents": ["a", "b"]}], members={"lead": lead})
    )
    assert result.status == "completed"
    assert {name: turn.task for name, turn in fakes.received[1:3]} == {"a": "Do one.", "b": "Do two."}
    _, second = facts(events, TeamPlanChanged)
    assert (second.plan_version, second.by, second.reason, second.to) == (2, "lead", "two halves", ("a", "b"))


async def test_without_a_usable_split_each_expert_gets_the_whole_task() -> None:
    fakes = FakeMembers()
    result, _ = await run(collaboration(fakes, [{"id": "draft", "parallel": SPLIT, "agents": ["a", "b"]}]))
    assert result.status == "degraded"
    assert sorted(fakes.calls) == ["a", "b", "lead", "lead", "lead", "lead"]
    assert any("could not be used" in text for text in result.warnings)


async def test_a_part_of_an_optional_member_is_left_out() -> None:
    fakes = FakeMembers()
    b = fakes.member("b", Refused("trouble"), optional=True)
    result, _ = await run(collaboration(fakes, STEPS, members={"b": b}))
    assert result.status == "degraded"
    assert contents(fakes.last_turn("lead").history) == ["lead is done"]
    assert not fakes.any_received("trouble")


async def test_a_retry_asks_only_for_parts_that_failed() -> None:
    fakes, answers = FakeMembers(), [Refused("trouble"), "b at last"]
    b = fakes.member("b", lambda turn: answers.pop(0))
    lead = fakes.member("lead", deciding(put={}))
    result, events = await run(collaboration(fakes, STEPS, members={"b": b, "lead": lead}))
    assert result.status == "completed"
    assert steps_of(events)[1:] == ["draft retry", "draft starts 2", "draft completed"]
    assert fakes.calls.count("a") == 1
    assert fakes.calls.count("b") == 2
    assert not fakes.any_received("trouble")


async def test_a_phase_of_one_part_needs_nothing_put_together() -> None:
    fakes = FakeMembers()
    await run(collaboration(fakes, [{"id": "draft", "parallel": SPLIT, "parts": PARTS[:1]}]))
    assert fakes.calls == ["a", "lead"]


async def test_a_part_is_done_again_where_a_person_has_changed_the_task_of_its_step() -> None:
    fakes, journal, tasks = FakeMembers(), MemoryJournal(), list[str]()

    async def lead(turn: Turn) -> str | None:
        if turn.output_schema is None:
            return None
        await engine.runs.edit_plan(RUN_ID, {"put": [{**step, "task": "Draw a boat."}]})
        return "{}"

    def second(turn: Turn) -> object:
        tasks.append(turn.task)
        return Refused("no") if len(tasks) == 1 else "b is done"

    parts = [{"id": "one", "agent": "a"}, {"id": "two", "agent": "b"}]
    step: dict[str, Any] = {"id": "draw", "parallel": SPLIT, "parts": parts, "task": "Draw a house."}
    members = {"lead": fakes.member("lead", lead), "b": fakes.member("b", second)}
    team = collaboration(fakes, [step, {"id": "c", "needs": ["draw"]}], members=members)
    async with Engine(journal) as engine:
        await engine.run(team, "Draw.", run_id=RUN_ID)
    assert [turn.task for name, turn in fakes.received if name == "a"] == ["Draw a house.", "Draw a boat."]
    assert tasks == ["Draw a house.", "Draw a boat."]
