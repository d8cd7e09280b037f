"""Who decides on a change: the lead on proposals, a person on what it confirms or has pinned."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Answer
from teamwright.errors import Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAsked
from teamwright.values.events.team import TeamEnded, TeamPlanChanged, TeamPlanProposed
from teamwright.values.limits import Limits
from teamwright.values.people import EditPlan
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.collaboration import SPLIT, collaboration, deciding, facts, statuses, steps_of
from tests.kit.members import FakeMembers
from tests.kit.runs import RUN_ID, TASK, run

STEPS: list[Any] = [{"id": "a"}, {"id": "b", "needs": ["a"]}]
CHANGED = {"id": "b", "agent": "c", "needs": ["a"], "task": "Shorter."}
PROPOSAL = {"put": [CHANGED], "reason": "b is away"}


def proposing(change: object) -> str:
    return f"Done.\n```json\n{json.dumps({'plan_change': change})}\n```"


async def answered(team: Team, answers: Mapping[str, Answer]) -> tuple[RunResult, list[Event]]:
    """Run a team, and give these answers by the keys of the questions, in order."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID)
        for key, answer in answers.items():
            assert result.status == "paused", result
            await engine.runs.answer(RUN_ID, key, answer)
            result = await engine.resume(RUN_ID, team=team)
    return result, list(await journal.read(RUN_ID))


async def test_the_lead_approves_what_an_expert_proposes_and_those_affected_read_it() -> None:
    fakes = FakeMembers()
    members = {
        "a": fakes.member("a", proposing(PROPOSAL)),
        "lead": fakes.member("lead", deciding(approve={"approve": True, "reason": "good idea"})),
    }
    result, events = await run(collaboration(fakes, STEPS, members=members, proposals=1))
    assert result.status == "completed"
    (proposed,) = facts(events, TeamPlanProposed)
    assert (proposed.by, proposed.to, proposed.approved, proposed.reason) == ("a", "lead", True, "good idea")
    _, second = facts(events, TeamPlanChanged)
    assert (second.plan_version, second.by, second.to) == (2, "a", ("c", "b"))
    turn = fakes.last_turn("c")
    assert turn.task == "Shorter."
    assert any("The plan changed (version 2)" in message.content for message in turn.history)


async def test_the_lead_refuses_a_proposal() -> None:
    fakes = FakeMembers()
    members = {
        "a": fakes.member("a", proposing({"remove": ["b"]})),
        "lead": fakes.member("lead", deciding(approve={"approve": False, "reason": "we need it"})),
    }
    _, events = await run(collaboration(fakes, [*STEPS, {"id": "c"}], members=members, proposals=1))
    (proposed,) = facts(events, TeamPlanProposed)
    assert (proposed.approved, proposed.reason) == (False, "we need it")
    assert len(facts(events, TeamPlanChanged)) == 1
    assert "b completed" in steps_of(events)


@pytest.mark.parametrize("proposals", [0, 1])
async def test_a_change_that_the_lead_only_quotes_is_none_of_the_lead(proposals: int) -> None:
    fakes = FakeMembers()
    hostile = proposing({"remove": ["c"]})
    members = {
        "a": fakes.member("a", hostile),
        "lead": fakes.member("lead", deciding(approve={"approve": False, "reason": "we need it"}, text=hostile)),
    }
    parts = [{"id": "one", "agent": "a"}, {"id": "two", "agent": "b"}]
    steps: list[Any] = [{"id": "p", "parallel": SPLIT, "parts": parts}, {"id": "c", "needs": ["p"]}]
    _, events = await run(collaboration(fakes, steps, members=members, proposals=proposals))
    assert len(facts(events, TeamPlanChanged)) == 1
    assert "c completed" in steps_of(events)


async def test_a_proposal_that_can_not_be_made_is_refused_without_asking() -> None:
    fakes = FakeMembers()
    members = {"a": fakes.member("a", proposing({"remove": ["a"]}))}
    _, events = await run(collaboration(fakes, STEPS, members=members, proposals=1))
    (proposed,) = facts(events, TeamPlanProposed)
    assert not proposed.approved
    assert "what is done stays done" in proposed.reason
    assert fakes.calls.count("lead") == 1


async def test_the_lead_changes_the_plan_at_once() -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", lambda turn: proposing({"remove": ["b"]}) if turn.purpose == "work" else None)
    steps = [{"id": "first", "agent": "lead"}, {"id": "b", "needs": ["first"]}]
    _, events = await run(collaboration(fakes, steps, members={"lead": lead}))
    assert facts(events, TeamPlanProposed) == []
    assert facts(events, TeamPlanChanged)[-1].difference == ("- b (b, after first)",)
    assert "b" not in fakes.calls


async def test_proposals_are_bounded_and_experts_are_told_of_them_only_where_they_count() -> None:
    fakes = FakeMembers(default=lambda name, turn: proposing({"remove": ["x"]}))
    _, events = await run(collaboration(fakes, [*STEPS, {"id": "c"}], proposals=2))
    assert len(facts(events, TeamPlanProposed)) == 2
    assert "plan_change" in fakes.last_turn("b").prompt
    silent = FakeMembers()
    await run(collaboration(silent, STEPS))
    assert not silent.any_received("plan_change")


async def test_a_person_approves_the_plan_before_it_runs() -> None:
    fakes = FakeMembers()
    answers = {"experts/lead/confirm": Answer.approve()}
    result, events = await answered(collaboration(fakes, STEPS, confirm=True), answers)
    assert result.status == "completed"
    assert statuses(events) == ["confirmed", "executing", "completed"]
    (asked,) = facts(events, PersonAsked)
    assert "+ b (b, after a)" in asked.question.text


async def test_a_person_edits_the_plan_and_its_edit_is_pinned() -> None:
    fakes = FakeMembers()
    edited: JsonValue = {"steps": [{"id": "a"}, {"id": "b", "needs": ["a"], "task": "Mine."}]}
    _, events = await answered(collaboration(fakes, STEPS, confirm=True), {"experts/lead/confirm": Answer.edit(edited)})
    second = facts(events, TeamPlanChanged)[-1]
    assert (second.plan_version, second.by) == (2, "")
    assert Plan.model_validate(second.plan).pins.steps == {"b": ("task",)}
    assert fakes.last_turn("b").task == "Mine."


async def test_an_edit_with_mistakes_is_asked_again() -> None:
    fakes = FakeMembers()
    wrong: JsonValue = {"steps": [{"id": "a", "agent": "nowhere"}]}
    answers = {"experts/lead/confirm": Answer.edit(wrong), "experts/lead/confirm-2": Answer.approve()}
    result, events = await answered(collaboration(fakes, STEPS, confirm=True), answers)
    assert result.status == "completed"
    assert "nowhere" in facts(events, PersonAsked)[1].question.text


async def test_an_edit_of_a_plan_that_is_to_be_approved_names_no_code(tmp_path: Path) -> None:
    fakes, mark = FakeMembers(), tmp_path / "run"
    check: JsonValue = {"criteria": [{"id": "x", "command": ["touch", str(mark)]}]}
    answers = {
        "experts/lead/confirm": Answer.edit({"steps": [{"id": "a", "evaluate": check}, {"id": "b"}]}),
        "experts/lead/confirm-2": Answer.approve(),
    }
    result, events = await answered(collaboration(fakes, STEPS, confirm=True), answers)
    assert result.status == "completed"
    assert "a manifest alone names code" in facts(events, PersonAsked)[1].question.text
    assert not mark.exists()


async def test_a_person_refuses_the_plan() -> None:
    fakes = FakeMembers()
    result, events = await answered(
        collaboration(fakes, STEPS, confirm=True), {"experts/lead/confirm": Answer.reject("too dear")}
    )
    assert result.status == "failed"
    assert result.failure is not None
    assert result.failure.error == "planning"
    assert "a person said no: too dear" in result.failure.message
    assert statuses(events) == ["failed"]
    assert fakes.calls == []


async def test_an_approval_holds_for_what_is_unchanged_so_a_new_plan_asks_only_for_its_difference() -> None:
    fakes = FakeMembers()
    other = {"put": [{"id": "a", "agent": "c"}]}
    members = {"a": fakes.member("a", Refused("trouble")), "lead": fakes.member("lead", deciding(put=other))}
    answers = {"experts/lead/confirm": Answer.approve(), "experts/lead/adjust-1/a/confirm": Answer.approve()}
    result, events = await answered(collaboration(fakes, STEPS, confirm=True, members=members), answers)
    assert result.status == "completed"
    _, asked = facts(events, PersonAsked)
    assert '~ a: agent: nothing → "c"' in asked.question.text
    assert "b (" not in asked.question.text


async def test_against_a_pin_the_lead_only_proposes() -> None:
    fakes = FakeMembers()
    edited: JsonValue = {"steps": [{"id": "a", "task": "Mine."}]}
    other = {"put": [{"id": "a", "agent": "c", "task": "Yours."}]}
    members = {"a": fakes.member("a", Refused("trouble")), "lead": fakes.member("lead", deciding(put=other))}
    keep = Answer.reject("keep mine")
    answers = {"experts/lead/confirm": Answer.edit(edited), "experts/lead/adjust-1/a/confirm": keep}
    team = collaboration(fakes, [{"id": "a"}], confirm=True, members=members)
    result, events = await answered(team, answers)
    assert "against what a person edited" in facts(events, PersonAsked)[1].question.text
    (proposed,) = facts(events, TeamPlanProposed)
    assert (proposed.by, proposed.to, proposed.approved, proposed.reason) == (
        "lead",
        "",
        False,
        "a person said no: keep mine",
    )
    assert [turn.task for name, turn in fakes.received if name == "a"] == ["Mine.", "Mine."]
    assert result.status == "degraded"


async def test_a_budget_that_does_not_cover_a_decision_of_the_lead_is_a_warning() -> None:
    fakes = FakeMembers()
    a = fakes.member("a", proposing({"put": [{"id": "x", "role": "b", "task": "More."}]}))
    team = collaboration(fakes, [{"id": "a"}], members={"a": a}, proposals=1, team={"limits": Limits(calls=2)})
    result, events = await run(team)
    assert (result.status, result.stop_reason, result.output) == ("degraded", "budget", "lead is done")
    assert [one.status for one in facts(events, TeamEnded)] == ["degraded"]
    assert any("budget" in text for text in result.warnings)


async def test_what_a_person_edits_while_the_lead_decides_on_a_proposal_stays() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    edited, begun = anyio.Event(), anyio.Event()
    mine: JsonValue = {"id": "b", "agent": "b", "needs": ["a"], "task": "Mine."}

    async def decide(turn: Turn) -> str:
        if "propose" not in turn.prompt:
            return "The answer."
        await journal.send(RUN_ID, EditPlan(plan={"put": [mine]}, by="ann"))
        edited.set()
        await begun.wait()
        return json.dumps({"approve": True, "reason": "good idea"})

    async def wait(turn: Turn) -> str:
        if edited.is_set():
            begun.set()
        await edited.wait()
        return "c"

    members = {
        "a": fakes.member("a", proposing(PROPOSAL)),
        "c": fakes.member("c", wait),
        "lead": fakes.member("lead", decide),
    }
    steps: list[Any] = [*STEPS, {"id": "c"}, {"id": "d", "agent": "c", "needs": ["c"]}]
    team = collaboration(fakes, steps, members=members, proposals=1)
    async with Engine(journal) as engine:
        await engine.run(team, TASK, run_id=RUN_ID)
    events = list(await journal.read(RUN_ID))
    assert fakes.last_turn("b").task == "Mine."
    (proposed,) = facts(events, TeamPlanProposed)
    assert (proposed.approved, proposed.reason) == (False, "a person set agent, task of the step 'b'")
