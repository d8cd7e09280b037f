"""Experts join and leave a team that collaborates: their open phases go to others, and what they did is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from teamwright.errors import InterventionRefused, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunIntervened, RunRefused
from teamwright.values.events.team import TeamLife, TeamMerged, TeamPlanChanged, TeamStepAssigned
from teamwright.values.people import AddMember, EditPlan, RemoveMember, Steer
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.collaboration import RACE, SPLIT, collaboration, deciding, facts, statuses, steps_of
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import RUN_ID, TASK

STEPS: list[Any] = [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]}]


def newcomer(task: str) -> str:
    """Answer as an expert who joins."""
    return "new is here"


JOIN = AddMember(member="new", spec={"function": f"{__name__}:newcomer"})


def leave(name: str) -> RemoveMember:
    return RemoveMember(member=name)


def edit(*steps: dict[str, Any]) -> EditPlan:
    return EditPlan(plan={"steps": list(steps)})


async def steered(
    team: Team, sent: Sequence[Steer], journal: MemoryJournal | None = None
) -> tuple[RunResult, list[Event]]:
    """Run a team to which these were sent before it starts."""
    journal = journal or MemoryJournal()
    async with Engine(journal) as engine:
        for one in sent:
            await journal.send(RUN_ID, one)
        with anyio.fail_after(20):
            result = await engine.run(team, TASK, run_id=RUN_ID)
    return result, list(await journal.read(RUN_ID))


async def test_whoever_leads_now_hands_out_the_steps_and_answers() -> None:
    fakes = FakeMembers()
    team = Team("t", members=fakes.members("lead a b c"), strategy="star_team", options={"steps": STEPS[:2]})
    result, _ = await steered(team, [leave("lead")])
    assert result.status == "completed"
    assert fakes.calls == ["a", "a", "b", "a"], "a leads, and hands out the second round"


async def test_an_expert_joins_and_gets_work_by_an_edit_of_the_plan() -> None:
    change = edit(*STEPS, {"id": "more", "agent": "new", "needs": ["c"]})
    result, events = await steered(collaboration(FakeMembers(), STEPS), [JOIN, change])
    assert result.status == "completed"
    assert "new is here" in [message.content for message in result.messages]
    (life,) = [one for one in facts(events, TeamLife) if one.reason]
    assert (life.members, life.left, life.reason) == (("lead", "a", "b", "c", "new"), (), "the members changed")


async def test_the_lead_takes_over_the_open_phases_of_an_expert_who_leaves() -> None:
    fakes = FakeMembers()
    result, events = await steered(collaboration(fakes, STEPS), [leave("b")])
    assert (result.status, "b" in fakes.calls) == ("completed", False)
    assert fakes.calls == ["a", "lead", "c", "lead"]
    version = facts(events, TeamPlanChanged)[-1]
    assert (version.by, version.reason, version.difference) == ("", "b has left", ('~ b: agent: nothing → "lead"',))
    plan: Any = version.plan
    assert "pins" not in plan


async def test_the_first_who_remains_succeeds_a_lead_who_leaves() -> None:
    fakes = FakeMembers()
    result, events = await steered(collaboration(fakes, STEPS), [leave("lead")])
    assert (result.status, result.output) == ("completed", "a is done")
    assert fakes.calls == ["a", "b", "c", "a"]
    assert [(one.lead, one.reason) for one in facts(events, TeamLife) if one.reason] == [("a", "a leads now")]


async def test_what_an_expert_has_begun_counts_after_it_has_left() -> None:
    fakes, go, begun = FakeMembers(), asyncio.Event(), asyncio.Event()

    async def slow(turn: Turn) -> str:
        begun.set()
        await go.wait()
        return "begun by a"

    team = collaboration(fakes, [*STEPS, {"id": "more", "agent": "a", "needs": ["c"]}], members={
        "a": fakes.member("a", slow)
    })  # fmt: skip
    async with Engine("memory") as engine:
        handle = await engine.start(team, TASK, run_id=RUN_ID)
        await begun.wait()
        await engine.runs.remove_member(RUN_ID, "a")
        go.set()
        result = await handle.result()
    assert result.status == "completed"
    assert result.messages[0].content == "begun by a"
    assert fakes.calls == ["a", "b", "c", "lead", "lead"]


async def test_a_phase_that_failed_under_an_expert_who_left_is_tried_again_by_another() -> None:
    fakes, go = FakeMembers(), asyncio.Event()

    async def failing(turn: Turn) -> str:
        await go.wait()
        raise Refused("no")

    def last(turn: Turn) -> None:
        go.set()

    members = {"a": fakes.member("a", failing), "lead": fakes.member("lead", deciding(put={}))}
    members["c"] = fakes.member("c", last)
    async with Engine("memory") as engine:

        async def leaves(turn: Turn) -> None:
            await engine.runs.remove_member(RUN_ID, "a")

        members["b"] = fakes.member("b", leaves)
        team = collaboration(fakes, [{"id": "a"}, {"id": "b"}, {"id": "c", "needs": ["b"]}], members=members)
        result = await engine.run(team, TASK, run_id=RUN_ID)
        events = list(await engine.journal.read(RUN_ID))
    assert (result.status, result.warnings) == ("completed", ())
    assert fakes.calls.count("a") == 1
    assert [one.member for one in facts(events, TeamStepAssigned) if one.step == "a"] == ["a", "lead"]


async def test_a_competition_goes_on_with_those_who_are_left() -> None:
    fakes = FakeMembers()
    race = {"id": "race", "parallel": RACE, "agents": ["a", "b", "c"], "needs": ["first"]}
    team = collaboration(fakes, [{"id": "first", "agent": "c"}, race], members={
        "lead": fakes.member("lead", deciding(winner={"winner": "answer-1", "reason": "."}))
    })  # fmt: skip
    result, events = await steered(team, [leave("b")])
    assert result.status == "completed"
    (merged,) = facts(events, TeamMerged)
    assert set(merged.entries.values()) == {"a", "c", "lead"}


async def test_a_competition_of_one_is_an_ordinary_phase() -> None:
    fakes = FakeMembers()
    race = {"id": "race", "parallel": RACE, "agents": ["lead", "b"], "merge": "vote"}
    result, events = await steered(collaboration(fakes, [{"id": "a"}, {**race, "needs": ["a"]}]), [leave("b")])
    assert result.status == "completed"
    assert not facts(events, TeamMerged)
    assert fakes.calls == ["a", "lead", "lead"]


async def test_parts_go_to_the_lead_too() -> None:
    fakes = FakeMembers()
    parts = [{"id": "one", "agent": "b"}, {"id": "two", "agent": "c"}]
    split = {"id": "split", "parallel": SPLIT, "parts": parts, "needs": ["a"]}
    result, events = await steered(collaboration(fakes, [{"id": "a"}, split]), [leave("b")])
    assert (result.status, "b" in fakes.calls) == ("completed", False)
    assert steps_of(events)[-1] == "split completed"


async def test_who_can_not_leave_or_join_is_refused_with_the_reason() -> None:
    evaluate = {"judge": "c", "criteria": [{"id": "ok", "judge": "Is it good?"}]}
    steps = [{"id": "a"}, {"id": "b", "needs": ["a"], "evaluate": evaluate}]
    verdict = '{"criteria": [{"id": "ok", "passed": true, "score": 1, "reason": "."}]}'
    fakes = FakeMembers()
    team = collaboration(fakes, steps, members={"c": fakes.member("c", verdict)})
    again = AddMember(member="a", spec=JOIN.spec)
    _, events = await steered(team, [leave("c"), again, leave("nobody")])
    assert [one.reason for one in facts(events, RunRefused)] == [
        "there is already a member 'a'; choose another name",
        "there is no member 'nobody'; known are a, b, c, lead",
        (
            "the step 'b' names 'c', which is not of the team; known are a, b, lead; edit the plan first, so that"
            " 'c' is not needed"
        ),
    ]


async def test_a_split_for_an_expert_who_has_left_meanwhile_is_replaced() -> None:
    fakes, go, begun = FakeMembers(), asyncio.Event(), asyncio.Event()
    division = {
        "put": [{"id": "s", "parallel": SPLIT, "parts": [{"id": "one", "agent": "b"}, {"id": "x", "agent": "c"}]}]
    }

    async def lead(turn: Turn) -> object:
        if turn.output_schema is None:
            return None
        begun.set()
        await go.wait()
        return deciding(put=division)(turn)

    steps = [{"id": "s", "parallel": SPLIT}, {"id": "a", "needs": ["s"]}]
    team = collaboration(fakes, steps, members={"lead": fakes.member("lead", lead)})
    async with Engine("memory") as engine:
        handle = await engine.start(team, TASK, run_id=RUN_ID)
        await begun.wait()
        await engine.runs.remove_member(RUN_ID, "b")
        await engine.runs.say(RUN_ID, "Go on.", to="a")
        go.set()
        with anyio.fail_after(10):
            result = await handle.result()
    assert result.status == "completed"


async def test_members_that_come_and_go_do_so_again_when_the_run_resumes() -> None:
    sent = [JOIN, leave("lead"), edit(*STEPS, {"id": "more", "agent": "new", "needs": ["c"]}), leave("b")]
    journal = MemoryJournal()
    result, events = await steered(collaboration(FakeMembers(), STEPS), sent, journal)
    assert (result.status, statuses(events)[-1]) == ("completed", "completed")
    for at in range(2, len(events)):
        again, _ = await cut_and_resume(collaboration(FakeMembers(), STEPS), at, journal)
        assert (again.output, again.messages) == (result.output, result.messages)


@pytest.mark.parametrize("strategy", ["sequential", "round_robin"])
async def test_a_strategy_that_keeps_its_members_says_so(strategy: str) -> None:
    team = Team("t", members=FakeMembers().members("a b"), strategy=strategy, max_turns=2)
    async with Engine("memory") as engine:
        await engine.journal.send(RUN_ID, leave("b"))
        await engine.run(team, TASK, run_id=RUN_ID)
        events = list(await engine.journal.read(RUN_ID))
    (refused,) = facts(events, RunRefused)
    assert refused.reason.startswith(f"the strategy {strategy!r} keeps its members while it runs")


async def test_a_new_member_never_takes_the_name_of_a_judge_or_of_a_lead_beside_the_team() -> None:
    fakes = FakeMembers()
    helpers = [fakes.member("judge"), fakes.member("boss")]
    rubric = {"judge": "judge", "criteria": [{"id": "q", "judge": "Good?"}]}
    options: dict[str, Any] = {"steps": [{"id": "a", "evaluate": rubric}], "lead": "boss", "risk": "low"}
    team = Team("t", members=fakes.members("a b"), helpers=helpers, strategy="collaborate", options=options)
    async with Engine("memory") as engine:
        for name in ("judge", "boss"):
            await engine.journal.send(RUN_ID, AddMember(member=name, spec=JOIN.spec))
        await engine.run(team, TASK, run_id=RUN_ID)
        events = list(await engine.journal.read(RUN_ID))
    reasons = [one.reason for one in facts(events, RunRefused)]
    assert [name in reason for name, reason in zip(("judge", "boss"), reasons, strict=True)] == [True, True]


async def test_a_pool_goes_on_without_a_member_who_leaves_and_keeps_its_last_one() -> None:
    fakes = FakeMembers()
    options: dict[str, Any] = {"steps": [{"id": "one"}, {"id": "two", "needs": ["one"]}], "pool": ["a", "b"]}
    team = Team("t", members=fakes.members("lead a b c"), strategy="dispatch", options=options)
    result, events = await steered(team, [leave("a"), leave("b")])
    assert result.status == "completed", result.warnings
    assert fakes.calls == ["b", "b"]
    assert [one.reason for one in facts(events, RunRefused)] == ["'b' is the last of the pool"]


async def test_a_name_that_is_taken_is_refused_before_the_team_is_at_work() -> None:
    fakes = FakeMembers()
    team = Team("t", members=fakes.members("lead a"), helpers=fakes.members("judge"), strategy="dag",
                options={"steps": [{"id": "a"}]})  # fmt: skip
    _, events = await steered(team, [AddMember(member=name, spec=JOIN.spec) for name in ("a", "judge")])
    assert [one.reason for one in facts(events, RunRefused)] == [
        "there is already a member 'a'; choose another name",
        "'judge' is the name of an agent that leads, judges or helps this team; choose another one",
    ]
    assert not facts(events, RunIntervened)


async def test_a_change_is_checked_as_it_will_be_after_those_that_wait() -> None:
    fakes, go, begun = FakeMembers(), asyncio.Event(), asyncio.Event()

    async def slow(turn: Turn) -> str:
        begun.set()
        await go.wait()
        return "begun by a"

    team = collaboration(fakes, STEPS, members={"a": fakes.member("a", slow)})
    async with Engine("memory") as engine:
        handle = await engine.start(team, TASK, run_id=RUN_ID)
        await begun.wait()
        runs, spec = engine.runs, {"function": f"{__name__}:newcomer"}
        await runs.add_member(RUN_ID, "new", spec)
        with pytest.raises(InterventionRefused, match=r"names 'other', which is not of the team; known are .*new"):
            await runs.edit_plan(RUN_ID, {"put": [{"id": "more", "agent": "other"}]})
        with pytest.raises(InterventionRefused, match="there is already a member 'new'"):
            await runs.add_member(RUN_ID, "new", spec)
        await runs.edit_plan(RUN_ID, {"put": [{"id": "more", "agent": "new", "needs": ["c"]}]})
        with pytest.raises(InterventionRefused, match="there is no step 'les' to remove"):
            await runs.edit_plan(RUN_ID, {"remove": ["les"]})
        await runs.edit_plan(RUN_ID, {"put": [{"id": "last", "agent": "b", "needs": ["more"]}]})
        await runs.remove_member(RUN_ID, "c")
        with pytest.raises(InterventionRefused, match="names 'c', which is not of the team"):
            await runs.edit_plan(RUN_ID, {"put": [{"id": "again", "agent": "c"}]})
        go.set()
        with anyio.fail_after(10):
            result = await handle.result()
        events = list(await engine.journal.read(RUN_ID))
    assert result.status == "completed"
    done = [one.step for one in facts(events, TeamStepAssigned)]
    assert done == ["a", "b", "c", "more", "last", "answer"], "whatever was acknowledged took effect"
    assert len(facts(events, RunRefused)) == 4


async def test_a_new_member_never_takes_the_name_of_one_in_a_team_within() -> None:
    fakes = FakeMembers()
    inner = Team("inner", members=fakes.members("deep"))
    team = Team("t", members=[inner, fakes.member("b")], strategy="dag", options={"steps": [{"id": "b"}]})
    _, events = await steered(team, [AddMember(member="deep", spec=JOIN.spec)])
    assert [one.reason for one in facts(events, RunRefused)] == [
        "'deep' is the name of an agent within this team, such as one of a team in it; choose another one"
    ]


def judge_of_all(turn: Turn) -> str | None:
    fields: Any = (turn.output_schema or {}).get("properties", {})
    passed = {"criteria": [{"id": "good", "passed": True, "score": 1, "reason": "Yes."}], "feedback": ""}
    return json.dumps(passed) if "criteria" in fields or "You judge the work" in turn.task else None


REVIEW: dict[str, Any] = {"criteria": [{"id": "good", "judge": "Is it good?"}]}


async def test_the_steps_of_a_leaver_go_to_no_judge_of_the_team() -> None:
    fakes = FakeMembers()
    members = [fakes.member("lead", judge_of_all), *fakes.members("a b c")]
    options: dict[str, Any] = {"lead": "lead", "steps": STEPS, "evaluate": {**REVIEW, "judge": "lead"}}
    result, events = await steered(Team("t", members=members, strategy="expert", options=options), [leave("b")])
    assert not facts(events, RunRefused)
    assert result.status == "completed"
    assert [one.member for one in facts(events, TeamStepAssigned)] == ["a", "a", "c"]


async def test_no_judge_of_the_team_succeeds_a_lead_who_answers() -> None:
    fakes = FakeMembers()
    members = [fakes.member("lead"), fakes.member("judge", judge_of_all), *fakes.members("a")]
    options: dict[str, Any] = {"lead": "lead", "answer": "lead", "evaluate": {**REVIEW, "judge": "judge"}}
    team = Team("t", members=members, strategy="expert", options={**options, "steps": [{"id": "a"}]})
    result, events = await steered(team, [leave("lead"), leave("a")])
    assert result.status == "completed"
    assert [(one.step, one.member) for one in facts(events, TeamStepAssigned)] == [("a", "a"), ("answer", "a")]
    (refused,) = facts(events, RunRefused)
    assert refused.reason == "'judge' would lead, and judge its own answer; add a member first, who leads then"


@pytest.mark.parametrize("steps", [None, [{"id": "a"}, {"id": "x", "role": "b", "needs": ["a"]}]])
async def test_steps_go_to_others_also_where_a_member_is_named_as_a_role(steps: list[Any] | None) -> None:
    fakes = FakeMembers()
    options: dict[str, Any] = {} if steps is None else {"steps": steps}
    team = Team("t", members=fakes.members("a b"), strategy="expert", options=options)
    result, events = await steered(team, [leave("b")])
    assert not facts(events, RunRefused)
    assert (result.status, fakes.calls) == ("completed", ["a", "a"])
