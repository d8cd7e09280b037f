"""What the lead changes in a plan that people have changed: it takes their changes first, and asks where they stay."""

from __future__ import annotations

import json
from typing import Any, cast

import anyio
import pytest
from pydantic import JsonValue

from teamwright import Answer
from teamwright.agents.agent import Agent
from teamwright.errors import InterventionRefused, Refused, UsageError
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAsked, RunApplied, RunRefused
from teamwright.values.events.team import TeamEvaluationResult, TeamPlanChanged
from teamwright.values.people import EditPlan, Tell
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.collaboration import deciding, facts, steps_of
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.runs import RUN_ID, TASK, run
from tests.kit.steering import Gate, run_steered

PINNED: JsonValue = {"id": "b", "agent": "b", "task": "Mine.", "needs": ["a"], "required": True, "name": "The end"}


async def replanned(new_plan: list[Any]) -> tuple[RunResult, list[Event], FakeMembers]:
    """Run a team in which a person edits a step, and whose lead plans again after another one has failed."""
    fakes, journal = FakeMembers(), MemoryJournal()
    lead = fakes.member("lead", deciding(steps={"reason": "another way", "steps": new_plan}))
    members: list[Agent] = [lead, fakes.member("a", Refused("trouble")), fakes.member("b"), fakes.member("c")]
    options: dict[str, Any] = {
        "steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}],
        "lead": "lead",
        "on_failure": ladder(0, replan=1),
    }
    team = Team("experts", members=members, strategy="expert", options=options)
    await journal.send(RUN_ID, EditPlan(plan={"put": [PINNED]}, by="ann"))
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID)
    return result, list(await journal.read(RUN_ID)), fakes


@pytest.mark.parametrize(
    ("steps", "asked"),
    [
        ([{"id": "b", "role": "c", "task": "Yours."}], "a person set agent, task"),
        ([{"id": "d", "role": "c", "task": "Instead."}], "a person edited the step 'b', which would be removed"),
    ],
    ids=["overwrites", "removes"],
)
async def test_a_lead_that_plans_again_asks_where_a_person_has_set_a_step(steps: list[Any], asked: str) -> None:
    result, events, _ = await replanned(steps)
    assert (result.status, result.stop_reason) == ("paused", "approval")
    assert asked in facts(events, PersonAsked)[0].question.text


async def test_what_only_people_set_stays_when_the_lead_plans_again() -> None:
    result, events, fakes = await replanned([{"id": "b", "role": "b", "task": "Mine."}])
    assert result.status == "completed"
    last = Plan.model_validate(facts(events, TeamPlanChanged)[-1].plan)
    assert (last.by_id["b"].required, last.by_id["b"].name) == (True, "The end")
    assert fakes.last_turn("b").task == "Mine."


async def test_what_people_changed_meanwhile_counts_before_the_lead_plans_again() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    seen: list[str] = []

    def lead(turn: Turn) -> str:
        seen.append(turn.task)
        return json.dumps({"reason": "another way", "steps": [{"id": "b", "role": "b", "task": "Mine."}]})

    async def fail(turn: Turn) -> str:
        await journal.send(RUN_ID, EditPlan(plan={"put": [PINNED]}, by="ann"))
        raise Refused("trouble")

    members: list[Agent] = [fakes.member("lead", lead), fakes.member("a", fail), fakes.member("b")]
    steps: list[Any] = [{"id": "a"}, {"id": "b", "needs": ["a"]}]
    options: dict[str, Any] = {"steps": steps, "lead": "lead", "on_failure": ladder(0, replan=1)}
    team = Team("experts", members=members, strategy="expert", options=options)
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID)
    events = list(await journal.read(RUN_ID))
    assert result.status == "completed"
    assert len(facts(events, RunApplied)) == 1
    assert "Mine." in seen[0]
    assert fakes.last_turn("b").task == "Mine."


def deciding_lead(fakes: FakeMembers, *decisions: object) -> Agent:
    return fakes.member("lead", deciding(action=list(decisions)))


WORK = {"action": "work", "steps": [{"id": "look", "role": "a", "task": "Look."}]}
OTHER = {"action": "work", "steps": [{"id": "ask", "role": "a", "task": "Ask."}]}
DONE = {"action": "answer"}


async def test_a_person_approves_each_decision_of_a_lead_that_decides_stepwise() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    members = [deciding_lead(fakes, WORK, OTHER, DONE), fakes.member("a")]
    team = Team("experts", members=members, strategy="react", options={"confirm": True, "timeout": None})
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID)
        for number, answer in enumerate((Answer.reject("not there"), Answer.approve()), start=1):
            assert result.stop_reason == "approval"
            await engine.runs.answer(RUN_ID, f"experts/lead/confirm-{number}/confirm", answer)
            result = await engine.resume(RUN_ID, team=team)
    assert result.status == "completed"
    assert steps_of(list(await journal.read(RUN_ID))) == ["ask starts", "ask completed"]
    assert fakes.any_received("A person rejected these steps")


REVIEW: JsonValue = {"criteria": [{"id": "sure", "contains": "SURE", "required": True}]}


async def test_a_lead_that_ends_the_team_does_not_escape_the_review() -> None:
    fakes = FakeMembers()
    end = Reply.of("lead", "It is fine.", signal="terminate")
    answers: list[object] = [end, json.dumps(WORK), json.dumps(DONE), "SURE."]
    lead = fakes.member("lead", lambda turn: answers.pop(0))
    team = Team("t", members=[lead, fakes.member("a", "SURE.")], strategy="react", options={"evaluate": REVIEW})
    result, events = await run(team)
    assert (result.status, result.stop_reason, result.output) == ("completed", "done", "SURE.")
    assert len(facts(events, TeamEvaluationResult)) == 2


async def test_a_lead_that_ends_a_team_without_a_review_gives_its_answer() -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", Reply.of("lead", "It is fine.", signal="terminate"))
    team = Team("t", members=[lead, fakes.member("a")], strategy="react")
    result, _ = await run(team)
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", "It is fine.")


async def test_a_lead_that_decides_stepwise_answers_from_what_people_added() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    added: JsonValue = {"put": [{"id": "more", "agent": "b", "task": "More."}]}

    async def work(turn: Turn) -> str:
        await journal.send(RUN_ID, EditPlan(plan=added, by="ann"))
        return "a is done"

    members = [deciding_lead(fakes, WORK, DONE), fakes.member("a", work), fakes.member("b", "what b found")]
    async with Engine(journal) as engine:
        result = await engine.run(Team("t", members=members, strategy="react"), TASK, run_id=RUN_ID)
    assert result.status == "completed"
    assert "what b found" in fakes.last_turn("lead").prompt


@pytest.mark.parametrize("strategy", ["dag", "expert", "dispatch", "star_team", "live"])
async def test_the_plan_of_every_preset_can_be_read_and_edited(strategy: str) -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    plans: list[Any] = []

    async def work(turn: Turn) -> str:
        if not plans:
            plan: Any = (await engine.runs.history(RUN_ID)).plan()
            plan["steps"][1]["task"] = "Mine."
            plans.append(plan)
            await journal.send(RUN_ID, EditPlan(plan=plan, by="ann"))
        return "done"

    members = [fakes.member("lead"), fakes.member("a", work), fakes.member("b")]
    steps: list[Any] = [{"id": "one", "agent": "a"}, {"id": "two", "agent": "b", "needs": ["one"]}]
    async with Engine(journal) as engine:
        team = Team("t", members=members, strategy=strategy, options={"steps": steps})
        result = await engine.run(team, TASK, run_id=RUN_ID)
        last: Any = (await engine.runs.history(RUN_ID)).plan()
    assert result.status == "completed"
    assert (last["version"], last["steps"][1]["task"]) == (2, "Mine.")
    assert "Mine." in fakes.last_turn("b").prompt


@pytest.mark.parametrize("plan", [None, "x", {"steps": [{"id": "a", "needs": ["b"]}, {"id": "b", "needs": ["a"]}]}])
async def test_what_is_no_plan_is_refused_also_where_nobody_drives_the_run(plan: Any) -> None:
    fakes = FakeMembers()
    options: dict[str, Any] = {"steps": [{"id": "a"}], "confirm": True}
    async with Engine("memory") as engine:
        result = await engine.run(
            Team("t", members=fakes.members("a b"), strategy="plan", options=options), TASK, run_id="r"
        )
        assert result.status == "paused"
        with pytest.raises(InterventionRefused):
            await engine.runs.edit_plan("r", plan)
        assert (await engine.runs.edit_plan("r", {"put": [{"id": "b"}]})).status == "sent"


async def test_what_no_change_before_it_can_make_possible_is_refused_at_once() -> None:
    fakes = FakeMembers()
    spec: JsonValue = {"function": "builtins:str"}

    async def work(turn: Turn) -> str:
        with anyio.fail_after(20):
            assert (await engine.runs.remove_member(RUN_ID, "c")).status == "accepted"
            with pytest.raises(InterventionRefused, match="judge"):
                await engine.runs.add_member(RUN_ID, "judge", spec)
            with pytest.raises(InterventionRefused, match="nowhere"):
                await engine.runs.edit_plan(RUN_ID, {"put": [{"id": "d", "agent": "nowhere"}]})
        return "done"

    members: list[Agent] = [fakes.member("a", work), *fakes.members("b c")]
    options: dict[str, Any] = {"steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}]}
    team = Team("t", members=members, helpers=[fakes.member("judge")], strategy="expert", options=options)
    async with Engine("memory") as engine:
        assert (await engine.run(team, TASK, run_id=RUN_ID)).status == "completed"


async def test_the_lead_hears_of_several_messages_at_once() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    said: list[str] = []

    def lead(turn: Turn) -> str | None:
        if "put" in cast("Any", turn.output_schema or {}).get("properties", {}):
            said.append(turn.task)
            return "{}"
        return None

    members = [fakes.member("lead", lead), *fakes.members("a")]
    for text in ("Be brief.", "Be kind."):
        await journal.send(RUN_ID, Tell(text=text))
    async with Engine(journal) as engine:
        options: dict[str, Any] = {"steps": [{"id": "a"}]}
        await engine.run(Team("t", members=members, strategy="collaborate", options=options), TASK, run_id=RUN_ID)
    assert ["Be brief.\n\nBe kind." in one for one in said] == [True]


@pytest.mark.parametrize("options", [{"max_feedback_rounds": 0}, {"max_feedback_rounds": 2, "revisions": 1}])
def test_rounds_of_feedback_count_the_first_attempt_and_are_said_once(options: dict[str, JsonValue]) -> None:
    with pytest.raises(UsageError, match="max_feedback_rounds"):
        Team("t", members=FakeMembers().members("a"), strategy="expert", options=options)


PROPOSES = 'It is done. {"plan_change": {"put": [{"id": "more", "role": "b", "task": "More."}], "reason": "Needed."}}'


@pytest.mark.parametrize("options", [{}, {"sees": "all"}, {"sees": "all", "talk": "all"}])
@pytest.mark.parametrize("strategy", ["plan", "dag", "expert", "dispatch"])
async def test_every_preset_takes_proposals(strategy: str, options: dict[str, Any]) -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", deciding(approve={"approve": True, "reason": "Yes."}))
    settings: dict[str, Any] = {"lead": "lead", "proposals": 1, "steps": [{"id": "a"}], **options}
    members = [fakes.member("a", PROPOSES), fakes.member("b")]
    result, _ = await run(Team("t", members=members, helpers=[lead], strategy=strategy, options=settings))
    assert result.status == "completed"
    assert fakes.calls == ["a", "lead", "b"]
    assert '"plan_change"' in fakes.received[0][1].prompt, "the member knows that it may propose a change"


async def test_members_propose_nothing_where_no_one_would_decide() -> None:
    fakes = FakeMembers()
    members = [fakes.member("a", PROPOSES), fakes.member("b")]
    options: dict[str, Any] = {"answer": "a", "steps": [{"id": "a"}]}
    await run(Team("t", members=members, strategy="collaborate", options=options))
    assert fakes.calls == ["a"]
    assert '"plan_change"' not in fakes.received[0][1].prompt


async def test_members_of_one_conversation_read_about_changes_of_the_plan() -> None:
    fakes, gate = FakeMembers(), Gate()
    options: dict[str, Any] = {"sees": "all", "steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}]}
    team = Team("t", members=[fakes.member("a", gate.answer), fakes.member("b")], strategy="expert", options=options)
    put: dict[str, Any] = {"id": "b", "needs": ["a"], "task": "At most ten words."}
    await run_steered(team, gate, lambda engine: engine.runs.edit_plan(RUN_ID, {"put": [put]}), MemoryJournal())
    assert "The plan changed (version 2):" in fakes.last_turn("b").prompt


async def test_a_lead_that_changes_a_plan_is_offered_the_roles_that_there_are() -> None:
    fakes = FakeMembers()
    plan = {"steps": [{"id": "x", "role": "poet", "task": "Write.", "instructions": "You write poems."}]}
    members = [fakes.member("lead", deciding(put={}, steps=plan)), fakes.member("a", Refused("no")), fakes.member("b")]
    options: dict[str, Any] = {"lead": "lead", "create_roles": True, "on_failure": ["adjust", "skip_step"]}
    await run(Team("t", members=members, strategy="expert", options=options))
    planned, changed = (turn for name, turn in fakes.received if name == "lead")
    assert "You may make other roles" in planned.task
    assert "You may make other roles" not in changed.task
    assert '"enum": ["a", "b", "poet"]' in json.dumps(changed.output_schema)


@pytest.mark.parametrize(
    ("change", "calls"),
    [
        ({"put": [{"id": "x", "agent": "c"}]}, ["a", "lead", "c", "b", "lead"]),
        ({"put": [{"id": "y", "agent": "b"}], "remove": ["x"]}, ["a", "lead", "b", "lead"]),
        (
            {"put": [{"id": "x", "agent": "a", "needs": ["z"]}, {"id": "z", "agent": "c"}]},
            ["a", "lead", "c", "a", "b", "lead"],
        ),
    ],
    ids=["another member", "without it", "after another one"],
)
async def test_a_failed_step_is_tried_again_as_people_have_changed_it_meanwhile(
    change: JsonValue, calls: list[str]
) -> None:
    fakes, journal, answers = FakeMembers(), MemoryJournal(), [Refused("no"), "a is done"]

    async def lead(turn: Turn) -> str | None:
        if turn.output_schema is None:
            return None
        await engine.runs.edit_plan(RUN_ID, change)
        return "{}"

    members = [fakes.member("lead", lead), fakes.member("a", lambda turn: answers.pop(0)), *fakes.members("b c")]
    steps: list[Any] = [{"id": "x", "agent": "a"}, {"id": "y", "agent": "b", "needs": ["x"]}]
    async with Engine(journal) as engine:
        result = await engine.run(
            Team("t", members=members, strategy="collaborate", options={"steps": steps}), TASK, run_id=RUN_ID
        )
    assert (result.status, fakes.calls) == ("completed", calls)
    assert not facts(list(await journal.read(RUN_ID)), RunRefused)
