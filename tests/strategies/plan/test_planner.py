"""Planners: fixed steps, one step for each role, and an agent whose mistakes are sent back once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import Refused
from teamwright.history.event_wording import note_text
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.members import FakeMembers
from tests.kit.records import cut
from tests.kit.runs import TASK, run, speakers

PLAN = {
    "steps": [
        {"id": "look", "role": "ana", "task": "Look for {{ outputs.nothing }} and {% this %}."},
        {"id": "tell", "role": "ben", "task": "Tell it.", "needs": ["look"]},
    ]
}


def team(fakes: FakeMembers, planner: object, **options: Any) -> Team:
    helper = fakes.member("planner", planner)
    given = {"lead": "planner", **options}
    return Team("t", members=fakes.members("ana ben"), helpers=[helper], strategy="expert", options=given)


async def test_without_steps_and_planner_there_is_one_step_for_each_role_in_order() -> None:
    fakes = FakeMembers()
    result, _ = await run(Team("t", members=fakes.members("ana ben cat"), strategy="expert"))
    assert speakers(result) == ["ana", "ben", "cat"]
    assert [message.name for message in fakes.last_turn("cat").history] == ["ana", "ben"]


async def test_an_agent_plans_and_its_texts_are_data_and_no_templates() -> None:  # K-05
    fakes = FakeMembers()
    result, events = await run(team(fakes, json.dumps(PLAN)))
    assert (result.status, result.output) == ("completed", "ben is done")
    assert fakes.calls == ["planner", "ana", "ben"]
    assert fakes.last_turn("ana").task == "Look for {{ outputs.nothing }} and {% this %}."
    assert TASK in fakes.received[0][1].prompt
    assert fakes.received[0][1].purpose == "coordinate"
    assert [event.fact.to_json()["reason"] for event in events if event.kind == "team.planned"] == [
        "planned by 'planner'"
    ]


@pytest.mark.parametrize(("options", "most"), [({}, 3400), ({"max_steps": 3}, 850), ({"shared_steps": True}, 6400)])
async def test_the_output_of_a_planner_is_bounded_by_its_steps(options: dict[str, Any], most: int) -> None:
    fakes = FakeMembers()
    await run(team(fakes, json.dumps(PLAN), **options))
    asked = fakes.received[0][1]
    assert asked.max_output == most
    assert asked.output_schema is not None
    steps: Any = asked.output_schema["properties"]
    assert steps["steps"]["maxItems"] == options.get("max_steps", 20)
    assert fakes.last_turn("ben").max_output is None


async def test_of_a_plan_that_was_cut_the_complete_steps_are_done() -> None:
    fakes, text = FakeMembers(), json.dumps(PLAN)
    torn = Reply.of("planner", text[: text.index("Tell") + 3], truncated=True)
    result, events = await run(team(fakes, lambda _: torn))
    assert (result.status, fakes.calls) == ("completed", ["planner", "ana"])
    changed = [event.fact.to_json() for event in events if event.kind == "team.plan_changed"]
    assert "cut at its output cap, so its 1 complete steps are the plan" in json.dumps(changed)
    said = [note_text(event) for event in events if event.kind == "team.plan_changed"]
    assert said == ["the plan of planner has 1 step; " + str(changed[0]["reason"])]


async def test_a_plan_that_was_cut_in_its_first_step_is_sent_back() -> None:
    fakes = FakeMembers()
    result, _ = await run(team(fakes, lambda _: Reply.of("planner", '{"steps": [{"id": "look', truncated=True)))
    assert (result.stop_reason, fakes.calls) == ("planning", ["planner", "planner"])
    assert "it was cut at its end" in fakes.last_turn("planner").task


def planning() -> Team:
    rules = [Rule(agent="p", reply=json.dumps(PLAN), delay=0.05), Rule(reply="done")]
    lead, ana, ben = (ScriptedAgent(name, rules) for name in ("p", "ana", "ben"))
    return Team("t", members=[ana, ben], helpers=[lead], strategy="expert", options={"lead": "p"})


async def test_steps_appear_while_the_plan_is_written_and_are_not_recorded() -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(planning(), TASK, run_id="r")
        items = [item async for item in engine.runs.follow("r", parts=True)]
        await handle.result()
    pieces = [one for one in items if not isinstance(one, Event)]
    steps = [step for one in pieces for step in one.steps]
    assert steps == [
        "step 1: look – Look for {{ outputs.nothing }} and {% this %}. (ana)",
        "step 2: tell – Tell it. (ben)",
    ]
    assert next(one.steps for one in pieces if one.steps) != tuple(steps), "one by one"
    assert items.index(next(one for one in pieces if one.steps)) < next(
        at for at, one in enumerate(items) if isinstance(one, Event) and one.kind == "team.planned"
    )
    events = [one for one in items if isinstance(one, Event)]
    assert not any("step 1:" in str(event.to_json()) for event in events)
    planned = next(event.number for event in events if event.kind == "team.planned")
    copy = await cut(journal, planned)
    async with Engine(copy) as engine:
        handle = await engine.start_resume("r", team=planning())
        again = [item async for item in engine.runs.follow("r", parts=True)]
        assert (await handle.result()).status == "completed"
    assert not any(one.steps for one in again if not isinstance(one, Event)), "a resumed run shows nothing twice"


async def test_a_plan_with_mistakes_is_sent_back_once_with_what_is_wrong() -> None:  # K-05
    fakes = FakeMembers()

    def plan(turn: Turn) -> str:
        return json.dumps(PLAN) if "could not be used" in turn.task else '{"steps": [{"id": "x", "role": "poet"}]}'

    result, events = await run(team(fakes, plan))
    assert result.status == "completed"
    assert fakes.calls == ["planner", "planner", "ana", "ben"]
    (told,) = [event.fact for event in events if event.kind == "team.reply_rejected"]
    assert str(told.to_json()["problem"]) in fakes.received[1][1].task
    assert [one.content for one in fakes.received[1][1].history] == ['{"steps": [{"id": "x", "role": "poet"}]}']


def flight(turn: Turn) -> str:
    if "the capability 'flying'" in turn.task:
        return json.dumps(PLAN)
    pilot = {"id": "fly", "role": "pilot", "task": "Fly.", "instructions": "You fly.", "capability": "flying"}
    return json.dumps({"steps": [pilot]})


async def test_a_plan_whose_roles_nobody_can_have_is_sent_back_too() -> None:  # K-03 K-05
    fakes = FakeMembers()
    result, _ = await run(team(fakes, flight, create_roles=True))
    assert (result.status, fakes.calls) == ("completed", ["planner", "planner", "ana", "ben"])


async def test_where_nobody_can_have_the_planned_roles_the_fallback_holds() -> None:  # K-05
    fakes = FakeMembers()
    pilot = {"id": "fly", "role": "pilot", "task": "Fly.", "instructions": "You fly.", "capability": "flying"}
    given = {"create_roles": True, "on_planner_failure": "single_step_fallback"}
    result, _ = await run(team(fakes, json.dumps({"steps": [pilot]}), **given))
    assert (result.status, result.output) == ("degraded", "ana is done")


@pytest.mark.parametrize("planner", ["no plan", Refused("no plan")])
async def test_without_a_plan_the_team_fails_fast_and_nobody_works(planner: object) -> None:  # K-05
    fakes = FakeMembers()
    result, events = await run(team(fakes, planner))
    assert (result.status, result.stop_reason) == ("failed", "planning")
    assert set(fakes.calls) == {"planner"}
    assert [event.kind for event in events if event.kind == "team.ended"] == ["team.ended"]


@pytest.mark.parametrize("planner", ["no plan", Refused("no plan")])
async def test_with_the_fallback_the_task_is_one_step_with_one_warning(planner: object) -> None:  # K-05
    fakes = FakeMembers()
    result, _ = await run(team(fakes, planner, on_planner_failure="single_step_fallback"))
    assert (result.status, result.output) == ("degraded", "ana is done")
    assert len(result.warnings) == 1
    assert "gave no plan" in result.warnings[0]
    assert "ben" not in fakes.calls
    assert fakes.last_turn("ana").task == TASK
