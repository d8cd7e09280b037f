"""Edits of a running plan by people: merged with what changed meanwhile, pinned, announced, and exact on a replay."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from pydantic import JsonValue

from teamwright.errors import InterventionRefused, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.strategies.plan.versions import edit_problem
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunApplied, RunIntervened, RunRefused
from teamwright.values.events.team import TeamEvaluationResult, TeamPlanChanged
from teamwright.values.people import Answer, EditPlan, RemoveMember, RestorePlan, Tell
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.collaboration import collaboration, deciding, facts, statuses, steps_of
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.records import cut, cut_and_resume
from tests.kit.runs import RUN_ID, TASK
from tests.kit.steering import Gate, run_steered

STEPS: list[Any] = [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]}]


def edit(*steps: dict[str, Any], **more: Any) -> EditPlan:
    plan: dict[str, JsonValue] = {"steps": list(steps), **more}
    return EditPlan(plan=plan, by="ann")


class Held:
    """A member that answers once it is let go."""

    def __init__(self, fakes: FakeMembers, name: str) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.member = fakes.member(name, self._answer)

    async def _answer(self, turn: Turn) -> None:
        self.begun.set()
        await self.go.wait()


async def edited(
    team: Team, held: Held, edits: Sequence[EditPlan | RestorePlan | Tell], journal: MemoryJournal | None = None
) -> tuple[RunResult, list[Event]]:
    """Run a team, and edit its plan while the held member works."""
    journal = journal or MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            handle = await engine.start(team, TASK, run_id=RUN_ID)
            await held.begun.wait()
            for one in edits:
                await engine.journal.send(RUN_ID, one)
            async for event in engine.runs.follow(RUN_ID):
                if isinstance(event, Event) and event.kind in ("run.intervened", "run.refused"):
                    break
            held.go.set()
            result = await handle.result()
    return result, list(await journal.read(RUN_ID))


async def test_a_person_edits_a_running_plan_and_its_edit_is_pinned_and_announced() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    change = edit(STEPS[0], {"id": "b", "needs": ["a"], "task": "Mine."}, STEPS[2])
    result, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [change])
    assert result.status == "completed"
    assert fakes.last_turn("b").task == "Mine."
    second = facts(events, TeamPlanChanged)[-1]
    assert (second.plan_version, second.by, second.reason, second.to) == (2, "", "edited by ann", ("b", "c"))
    plan: Any = second.plan
    assert plan["pins"] == {"steps": {"b": ["task"]}}
    assert any("The plan changed (version 2)" in one.content for one in fakes.last_turn("b").history)


async def test_what_is_done_or_being_done_stays() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    change = edit({"id": "a", "task": "Again."}, *STEPS[1:])
    result, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [change])
    assert result.status == "completed"
    (refused,) = facts(events, RunRefused)
    assert "'a' is in progress; what is done stays done" in refused.reason
    assert not facts(events, RunIntervened), "it is refused before it is acknowledged"
    assert len(facts(events, TeamPlanChanged)) == 1


async def test_an_edit_that_is_no_plan_is_refused_in_words() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    change = edit({"id": "a", "parallell": "serial"})
    _, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [change])
    assert "did you mean 'parallel'" in facts(events, RunRefused)[0].reason


PLAIN: list[Any] = [{"id": "a"}, {"id": "b", "needs": ["a"]}]


def plain_team(fakes: FakeMembers, held: Held) -> Team:
    members = [held.member, fakes.member("b"), fakes.member("c")]
    return Team("t", members=members, strategy="dag", options={"steps": PLAIN})


async def test_a_step_that_a_person_gives_a_review_is_reviewed_in_every_plan() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    review = {"criteria": [{"id": "good", "contains": "good"}]}
    result, events = await edited(plain_team(fakes, held), held, [edit(PLAIN[0], {**PLAIN[1], "evaluate": review})])
    assert [one.member for one in facts(events, TeamEvaluationResult)] == ["b"]
    assert result.stop_reason == "review_exceeded"


@pytest.mark.parametrize(
    "step",
    [
        {"id": "c", "needs": ["a"], "role": "b"},
        {"id": "c", "needs": ["a"], "parallel": "competitive_parallel", "agents": ["b", "c"]},
    ],
)
async def test_a_step_that_a_plain_plan_has_no_states_for_is_refused_in_words(step: dict[str, Any]) -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    result, events = await edited(plain_team(fakes, held), held, [edit(*PLAIN, step)])
    assert "this team began with steps of single agents; name one  agent" in facts(events, RunRefused)[0].reason
    assert (result.status, fakes.calls) == ("completed", ["a", "b"])


CIRCLE: JsonValue = [{"id": "a", "needs": ["b"]}, {"id": "b", "needs": ["a"]}]


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (None, "it is no plan: write an object with  steps"),
        ("Do it faster.", "it is no plan: write an object with  steps"),
        ([], "it is no plan: write an object with  steps"),
        ({}, "steps: is missing"),
        ({"steps": []}, "steps: is empty"),
        ({"steps": CIRCLE}, "steps need each other in a circle: 'a' needs 'b' needs 'a'"),
        ({"steps": [{"id": "a", "needs": ["z"]}]}, "the step 'a' needs 'z', which is no step"),
        ({"put": None}, "put: expects a list"),
        ({"put": CIRCLE}, "steps need each other in a circle"),
        ({"put": [], "reason": "none"}, "the change changes nothing"),
    ],
)
def test_what_can_be_no_plan_is_refused_whatever_the_run_does(plan: JsonValue, why: str) -> None:
    refused = edit_problem(EditPlan(plan=plan))
    assert refused is not None
    assert why in refused


@pytest.mark.parametrize(
    "plan",
    [
        {"steps": [{"id": "a"}]},
        {"tasks": [{"id": "a"}]},
        {"put": [{"id": "b", "needs": ["a"]}]},
        {"remove": ["a"]},
        {"variables": {"tone": "calm"}},
    ],
)
def test_a_plan_and_a_change_of_one_may_be_sent(plan: JsonValue) -> None:
    assert edit_problem(EditPlan(plan=plan)) is None


async def test_a_change_is_taken_as_well_as_a_whole_plan() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    change = EditPlan(plan={"put": [{"id": "b", "needs": ["a"], "task": "Mine."}], "remove": ["c"], "reason": "short"})
    _, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [change])
    last = facts(events, TeamPlanChanged)[-1]
    assert (last.difference, last.reason) == (('~ b: task: nothing → "Mine."', "- c (c, after b)")[::-1], "short")
    assert fakes.last_turn("b").task == "Mine."


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (EditPlan(plan={"remove": ["d"]}), "there is no step 'd' to remove"),
        (EditPlan(plan={"put": [{"id": "c", "needs": ["d"]}]}), "the step 'c' needs 'd', which is no step"),
        (EditPlan(plan={"steps": [{"id": "a"}, {"id": "b", "agent": "z"}]}), "names 'z', which is not of the team"),
        (EditPlan(plan={"steps": STEPS, "version": 7}), "the plan has no version 7"),
        (
            EditPlan(plan={"put": [{"id": "b", "needs": ["zz"], "agent": "z"}]}),
            "which is no step; known are a, b, c; the step 'b' names 'z'",
        ),
    ],
)
async def test_what_the_present_plan_does_not_allow_is_refused_before_it_is_acknowledged(
    change: EditPlan, why: str
) -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    result, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [change])
    assert result.status == "completed"
    assert why in facts(events, RunRefused)[0].reason
    assert not facts(events, RunIntervened)


async def test_a_change_that_needs_one_before_it_is_not_refused_too_early() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    first = EditPlan(plan={"put": [{"id": "d", "agent": "b", "needs": ["c"]}]})
    second = EditPlan(plan={"put": [{"id": "e", "agent": "c", "needs": ["d"]}]})
    _, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [first, second])
    assert not facts(events, RunRefused)
    assert [one.plan_version for one in facts(events, TeamPlanChanged)] == [1, 2, 3]


async def test_an_edit_of_an_earlier_version_keeps_what_changed_since() -> None:
    """Both edits are of version 1: the second does not undo the first."""
    fakes = FakeMembers()
    held = Held(fakes, "a")
    first = edit(STEPS[0], {"id": "b", "needs": ["a"], "task": "First."}, STEPS[2], version=1)
    second = edit(*STEPS[:2], {"id": "c", "needs": ["b"], "task": "Second."}, version=1)
    _, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [first, second])
    assert [one.plan_version for one in facts(events, TeamPlanChanged)] == [1, 2, 3]
    assert (fakes.last_turn("b").task, fakes.last_turn("c").task) == ("First.", "Second.")


async def test_a_plan_without_a_version_is_one_for_the_present() -> None:
    """What it has stands there afterwards, also where an earlier edit said otherwise."""
    fakes = FakeMembers()
    held = Held(fakes, "a")
    first = edit(STEPS[0], {"id": "b", "needs": ["a"], "task": "First."}, STEPS[2])
    second = edit(*STEPS[:2], {"id": "c", "needs": ["b"], "task": "Second."})
    _, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [first, second])
    assert [one.plan_version for one in facts(events, TeamPlanChanged)] == [1, 2, 3]
    assert (fakes.last_turn("b").task, fakes.last_turn("c").task) == (TASK, "Second.")


async def test_a_phase_that_is_added_while_the_last_one_runs_is_done_too() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    change = edit({"id": "a"}, {"id": "more", "agent": "b", "needs": ["a"]})
    result, events = await edited(collaboration(fakes, [{"id": "a"}], members={"a": held.member}), held, [change])
    assert fakes.calls == ["a", "b", "lead"]
    assert steps_of(events)[-1] == "more completed"
    assert statuses(events) == ["executing", "completed"]
    assert result.status == "completed"


async def test_the_lead_plans_again_for_what_a_person_says() -> None:
    """Phases that have not started wait until the lead has decided."""
    fakes = FakeMembers()
    held = Held(fakes, "a")
    other = {"put": [{"id": "b", "agent": "c", "needs": ["a"], "task": "In French."}], "reason": "as they say"}
    lead = fakes.member("lead", deciding(put=other))
    team = collaboration(fakes, STEPS[:2], members={"a": held.member, "lead": lead})
    tell = Tell(text="Write in French.")
    result, events = await edited(team, held, [tell])
    assert result.status == "completed"
    assert fakes.calls == ["a", "lead", "c", "lead"]
    assert fakes.last_turn("c").task == "In French."
    last = facts(events, TeamPlanChanged)[-1]
    assert (last.by, last.reason) == ("lead", "as they say")


async def test_what_is_said_while_the_last_phase_runs_can_add_another() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "a")
    lead = fakes.member("lead", deciding(put={"put": [{"id": "more", "agent": "b", "needs": ["a"]}]}))
    team = collaboration(fakes, STEPS[:1], members={"a": held.member, "lead": lead})
    _, events = await edited(team, held, [Tell(text="And the price?")])
    assert steps_of(events)[-1] == "more completed"
    assert statuses(events) == ["executing", "completed"]


async def test_a_phase_may_have_any_name() -> None:
    """The keys of the strategy itself collide with none."""
    names = ["plan", "plan-1", "lead", "fallback", "confirm", "change-1", "retry", "split", "event-1", "finish"]
    names += ["replan-1", "decide-1", "redirect-1", "proposal-1", "answer-2", "work"]
    fakes = FakeMembers()
    steps = [{"id": name, "agent": "a", "needs": names[:place][-1:]} for place, name in enumerate(names)]
    async with Engine("memory") as engine:
        result = await engine.run(collaboration(fakes, steps), TASK, run_id=RUN_ID)
    assert result.status == "completed"


async def test_a_run_that_is_cut_anywhere_makes_the_same_versions_and_takes_a_later_edit_only_later() -> None:
    """The record is cut after each event, with the edit in the inbox: it takes effect where it did, or later."""
    fakes, journal = FakeMembers(), MemoryJournal()
    held = Held(fakes, "a")
    change = edit(STEPS[0], {"id": "b", "needs": ["a"], "task": "Mine."}, STEPS[2])
    expected, events = await edited(collaboration(fakes, STEPS, members={"a": held.member}), held, [change], journal)
    for at in range(1, len(events)):
        again = FakeMembers()
        result, kinds = await cut_and_resume(collaboration(again, STEPS), at, journal)
        assert (result.status, result.output) == (expected.status, expected.output), at
        assert kinds.count("team.plan_changed") == 2, at
        assert (
            not {"a", "b", "c"}
            & set(again.calls)
            & {event.key.split("/")[1] for event in events[:at] if event.kind == "agent.replied" and "/" in event.key}
        ), at


async def restored(
    version: int, *edits: EditPlan, journal: MemoryJournal | None = None
) -> tuple[FakeMembers, RunResult, list[Event]]:
    """Edit the plan while its second step works, and then go back to a version of it."""
    fakes = FakeMembers()
    held = Held(fakes, "b")
    team = collaboration(fakes, STEPS, members={"b": held.member})
    changes = [*edits, RestorePlan(plan_version=version, by="ann")]
    result, events = await edited(team, held, changes, journal)
    return fakes, result, events


MINE = edit(*STEPS[:2], {"id": "c", "needs": ["b"], "task": "Mine."})
MORE = EditPlan(plan={"put": [{"id": "d", "agent": "a", "needs": ["b"]}], "remove": ["c"], "variables": {"n": 1}})


async def test_a_person_goes_back_to_an_earlier_version_as_the_next_one() -> None:
    fakes, result, events = await restored(1, MINE, MORE)
    assert result.status == "completed"
    changed = facts(events, TeamPlanChanged)
    assert [one.plan_version for one in changed] == [1, 2, 3, 4], "versions stay linear"
    first: Any = changed[0].plan
    last: Any = changed[-1].plan
    assert [(one["id"], one.get("task")) for one in last["steps"]] == [("a", None), ("b", None), ("c", None)]
    assert (last.get("variables"), first.get("variables")) == (None, None)
    assert changed[-1].reason == "version 1 restored by ann"
    assert "Mine." not in fakes.last_turn("c").task
    assert [name for name, turn in fakes.received if turn.purpose == "work"] == ["a", "b", "c", "lead"]


async def test_what_goes_back_is_pinned_as_an_edit_of_a_person() -> None:
    _, _, events = await restored(1, MINE)
    plan: Any = facts(events, TeamPlanChanged)[-1].plan
    assert plan["pins"] == {"steps": {"c": ["task"]}}


async def test_steps_that_have_begun_since_stay_when_a_person_goes_back() -> None:
    fakes = FakeMembers()
    held = Held(fakes, "c")
    team = collaboration(fakes, STEPS[:1], members={"c": held.member}, confirm=True)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, TASK, run_id=RUN_ID)
        (key,) = (await engine.runs.history(RUN_ID)).questions()
        more: JsonValue = {"steps": [*STEPS, {"id": "e", "agent": "b", "needs": ["c"]}]}
        await engine.runs.answer(RUN_ID, key, Answer.edit(more))
        handle = await engine.start_resume(RUN_ID, team=team)
        await held.begun.wait()
        await engine.runs.restore_plan(RUN_ID, 1)
        held.go.set()
        assert (await handle.result()).status == "completed"
        plan: Any = (await engine.runs.history(RUN_ID)).plan()
    assert [one["id"] for one in plan["steps"]] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (7, "the plan has no version 7; it has 1 to 1"),
        (1, "the plan has its version 1 now"),
    ],
)
async def test_a_version_that_can_not_be_restored_is_refused_before_it_is_acknowledged(version: int, why: str) -> None:
    _, result, events = await restored(version)
    assert result.status == "completed"
    assert why in facts(events, RunRefused)[0].reason
    assert not facts(events, RunIntervened)


async def test_a_run_that_is_cut_anywhere_goes_back_to_the_same_version() -> None:
    journal = MemoryJournal()
    _, result, events = await restored(1, MINE, MORE, journal=journal)
    versions = [one.plan_version for one in facts(events, TeamPlanChanged)]

    for at in range(1, len(events)):
        again, kinds = await cut_and_resume(collaboration(FakeMembers(), STEPS), at, journal)
        assert (again.status, again.output) == (result.status, result.output), at
        # Between two of them, what is left takes effect before the next step, where it may be too late.
        assert kinds.count("team.plan_changed") + kinds.count("run.refused") == len(versions), at


@pytest.mark.parametrize(
    ("first", "options"),
    [
        ({"id": "a", "owns": ["out/*"]}, {}),
        ({"id": "a", "parallel": "subtask_parallel", "agents": ["a", "b"]}, {}),
        ({"id": "a", "parallel": "subtask_parallel", "parts": [{"id": "x", "agent": "c"}]}, {"handout": "step"}),
    ],
    ids=["owned keys", "a task that the lead splits", "a shared step without a briefing"],
)
async def test_what_people_send_after_a_crash_comes_after_all_that_had_begun(
    first: dict[str, Any], options: dict[str, Any]
) -> None:
    """At every point of the record: the scope of owned keys has begun, and so has a step whose task is split."""
    team = collaboration(FakeMembers(), [first, {"id": "b", "needs": ["a"]}], **options)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, TASK, run_id=RUN_ID)
    events = await journal.read(RUN_ID)
    for at in range(2, len(events)):
        copy = await cut(journal, at, RUN_ID)
        await copy.send(RUN_ID, edit(first, {"id": "b", "agent": "a", "needs": ["a"]}))
        await copy.send(RUN_ID, RemoveMember(member="c"))
        async with Engine(copy) as engine:
            result = await engine.resume(RUN_ID, team=team)
        assert result.status in ("completed", "degraded"), (at, result.failure)
        answered = facts(list(await copy.read(RUN_ID)), RunApplied), facts(list(await copy.read(RUN_ID)), RunRefused)
        assert sum(map(len, answered)) == 2


@pytest.mark.parametrize("works", [True, False])
async def test_steps_that_a_person_adds_are_answered_from_where_the_lead_decides_on_nothing(works: bool) -> None:
    """Also by the agent that finishes, if they fail: a team never claims that its time was used up."""
    fakes = FakeMembers()
    lead = fakes.member("lead", lambda turn: "no form" if turn.output_schema else None)
    a = fakes.member("a", None if works else Refused("no"))
    options: dict[str, JsonValue] = {
        "lead": "lead",
        "on_failure": ladder(0, skip_step=False, finish=True),
        "timeout": 600,
    }
    team = Team("t", members=[lead, a], strategy="react", options=options)
    journal = MemoryJournal()
    await journal.send(RUN_ID, edit({"id": "more", "agent": "a"}))
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID)
    assert (result.status, result.stop_reason, result.output) == ("degraded", "done", "lead is done")


async def test_a_version_whose_step_failed_and_was_planned_again_is_refused_with_a_remedy() -> None:
    fakes, gate = FakeMembers(), Gate()
    again = {"reason": "Another way.", "steps": [{"id": "z", "role": "a", "task": "z"}]}
    members = [
        fakes.member("lead", json.dumps(again)),
        fakes.member("a", gate.answer),
        fakes.member("b", Refused("no")),
    ]
    options: dict[str, Any] = {"lead": "lead", "steps": [{"id": "b"}], "on_failure": ["replan"]}
    team = Team("t", members=members, strategy="expert", options=options)

    async def restore(engine: Engine) -> None:
        why = "version 1 has what failed and was planned again ('b'); send the steps that you want as an edit, under"
        with pytest.raises(InterventionRefused, match=re.escape(why)):
            await engine.runs.restore_plan(RUN_ID, 1)

    result, _ = await run_steered(team, gate, restore, MemoryJournal())
    assert result.status == "completed"
