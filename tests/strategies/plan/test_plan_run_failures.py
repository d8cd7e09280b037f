"""A plan runs as its needs are settled: milestones, a second attempt, and one agent who finishes what failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from teamwright.errors import ManifestError, Refused
from teamwright.experts.presets import Collaborate
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.strategies.plan.closing import FINISH
from teamwright.teams.team import Team
from teamwright.values.events.team import StepSkipped, TeamEnded, TeamEvaluationResult, TeamPlanChanged, TeamPlanStatus
from teamwright.values.limits import Limits
from teamwright.values.people import RemoveMember
from teamwright.values.specs.plan import Step
from tests.kit.collaboration import RACE, SPLIT, collaboration, deciding, facts, statuses, steps_of
from tests.kit.ladders import finishing, ladder
from tests.kit.members import FakeMembers
from tests.kit.runs import RUN_ID, TASK, contents, run, speakers

CHAIN: list[Any] = [{"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["a"]}]
GATE = {"criteria": [{"id": "good", "contains": "good"}]}


async def test_phases_start_as_soon_as_what_they_need_is_done() -> None:
    fakes = FakeMembers()
    result, events = await run(collaboration(fakes, CHAIN))
    assert (result.status, result.output) == ("completed", "lead is done")
    assert fakes.calls[0] == "a"
    assert sorted(fakes.calls[1:3]) == ["b", "c"]
    assert statuses(events) == ["executing", "completed"]
    assert [message.name for message in fakes.last_turn("lead").history] == ["a", "b", "c"]
    assert [message.name for message in fakes.last_turn("b").history] == ["a"]


async def test_tasks_are_templates_that_read_results_and_variables() -> None:
    fakes = FakeMembers()
    steps = [*CHAIN[:1], {"id": "b", "needs": ["a"], "task": "{{ variables.verb }} {{ outputs.a }}, {{ task }}"}]
    await run(collaboration(fakes, steps, variables={"verb": "Check"}))
    assert fakes.last_turn("b").task == f"Check a is done, {TASK}"


async def test_a_phase_whose_condition_does_not_hold_is_skipped_with_those_that_need_it_alone() -> None:
    fakes = FakeMembers()
    steps = [{"id": "a"}, {"id": "b", "needs": ["a"], "when": "'no' in outputs.a"}, {"id": "c", "needs": ["b"]}]
    result, events = await run(collaboration(fakes, steps))
    assert [(one.step, one.reason) for one in facts(events, StepSkipped)] == [("b", "condition"), ("c", "needs")]
    assert [one.step for one in facts(events, StepSkipped)] == ["b", "c"]
    assert result.status == "completed", result.warnings


async def test_a_milestone_has_to_pass_before_dependants_start() -> None:
    fakes, answers = FakeMembers(), ["bad", "still bad", "good"]
    a = fakes.member("a", lambda turn: answers.pop(0))
    steps = [{"id": "a", "evaluate": {**GATE, "revisions": 2}}, {"id": "b", "needs": ["a"]}]
    result, events = await run(collaboration(fakes, steps, members={"a": a}))
    assert result.status == "completed", result.warnings
    assert fakes.calls == ["a", "a", "a", "b", "lead"]
    assert [one.verdict.outcome for one in facts(events, TeamEvaluationResult)] == ["revise", "revise", "pass"]
    assert contents(fakes.last_turn("b").history) == ["good"]


@pytest.mark.parametrize(
    ("phase", "author"),
    [
        ({"parallel": SPLIT, "parts": [{"id": "x", "agent": "a"}, {"id": "y", "agent": "b"}]}, "lead"),
        ({"parallel": RACE, "agents": ["a", "b"]}, "b"),
        ({"parallel": RACE, "agents": ["a", "b"], "merge": "fusion"}, "lead"),
    ],
)
async def test_the_milestone_of_a_phase_judges_what_became_of_it(phase: dict[str, Any], author: str) -> None:
    """Who wrote the result revises it: the lead what it put together or merged, and the winner its own answer."""
    fakes = FakeMembers(default=lambda name, turn: "good" if "Review 1" in turn.task else "bad")
    lead = fakes.member("lead", deciding(winner={"winner": "answer-2", "reason": "."}))
    steps = [{"id": "p", "evaluate": {**GATE, "revisions": 1}, **phase}]
    result, events = await run(collaboration(fakes, steps, members={"lead": lead}))
    assert [(one.member, one.verdict.outcome) for one in facts(events, TeamEvaluationResult)] == [
        (author, "revise"),
        (author, "pass"),
    ]
    assert contents(fakes.last_turn("lead").history) == ["good"]
    assert result.status == "completed", result.warnings


async def test_a_judge_of_the_team_decides_a_milestone() -> None:
    fakes = FakeMembers()
    judge = fakes.member("c", '{"criteria": [{"id": "q", "passed": true, "score": 1.0, "reason": "fine"}]}')
    rubric = {"judge": "c", "criteria": [{"id": "q", "judge": "Is it fine?"}]}
    result, events = await run(collaboration(fakes, [{"id": "a", "evaluate": rubric}], members={"c": judge}))
    assert result.status == "completed", result.warnings
    assert facts(events, TeamEvaluationResult)[0].verdict.outcome == "pass"


async def test_a_phase_that_fails_is_tried_once_more_with_another_split() -> None:
    fakes = FakeMembers()
    other = {"put": [{"id": "p", "agent": "b", "task": "Do it differently."}], "reason": "b can do it"}
    members = {"a": fakes.member("a", Refused("trouble")), "lead": fakes.member("lead", deciding(put=other))}
    result, events = await run(collaboration(fakes, [{"id": "p", "agent": "a"}], members=members))
    assert result.status == "completed", result.warnings
    assert fakes.calls == ["a", "lead", "b", "lead"]
    assert fakes.last_turn("b").task == "Do it differently."
    assert steps_of(events) == ["p starts", "p retry", "p starts 2", "p completed"]
    assert facts(events, TeamPlanChanged)[-1].difference == (
        '~ p: agent: "a" → "b"',
        '~ p: task: nothing → "Do it differently."',
    )
    assert not fakes.any_received("trouble")


async def test_a_change_by_the_lead_keeps_limits_and_milestones_that_people_set() -> None:
    fakes = FakeMembers()
    other = {"put": [{"id": "p", "agent": "b", "limits": {"calls": 99}, "milestone": ["Is it short?"]}]}
    members = {"a": fakes.member("a", Refused("trouble")), "lead": fakes.member("lead", deciding(put=other))}
    steps = [
        {
            "id": "p",
            "agent": "a",
            "evaluate": {"criteria": [{"id": "done", "contains": "done"}]},
            "limits": {"calls": 9},
        }
    ]
    _, events = await run(collaboration(fakes, steps, members=members))
    changed: Any = facts(events, TeamPlanChanged)[-1].plan
    assert changed["steps"][0]["limits"] == {"calls": 9}
    assert [one["id"] for one in changed["steps"][0]["evaluate"]["criteria"]] == ["done"]


async def test_after_a_second_failure_one_agent_finishes_with_everything_learnt() -> None:
    fakes = FakeMembers()
    b = fakes.member("b", Refused("trouble"))
    result, events = await run(collaboration(fakes, CHAIN, members={"b": b}, on_failure=finishing("c")))
    assert (result.status, result.output) == ("degraded", "c is done")
    assert statuses(events) == ["executing", "fallback"]
    assert steps_of(events)[-2:] == ["b finish", "b failed"]
    last = fakes.last_turn("c")
    assert last.task == TASK
    assert contents(last.history) == ["a is done", "c is done", FINISH]
    assert any("'b' failed (refused: trouble)" in text for text in result.warnings)
    assert speakers(result) == ["a", "c", "c"]
    assert not fakes.any_received("trouble")


async def test_the_parts_that_were_done_of_a_failed_phase_are_learnt() -> None:
    fakes = FakeMembers()
    parts = [{"id": "x", "agent": "a"}, {"id": "y", "agent": "b"}]
    members = {"b": fakes.member("b", Refused("trouble")), "lead": fakes.member("lead", deciding(put={}))}
    await run(collaboration(fakes, [{"id": "p", "parallel": SPLIT, "parts": parts}], members=members))
    assert contents(fakes.last_turn("lead").history) == ["a is done", FINISH]


async def test_a_milestone_that_never_passes_ends_in_the_fallback() -> None:
    fakes = FakeMembers()
    steps = [{"id": "a", "evaluate": GATE}, {"id": "b", "needs": ["a"]}]
    result, events = await run(collaboration(fakes, steps, members={"lead": fakes.member("lead", deciding(put={}))}))
    assert statuses(events)[-1] == "fallback"
    assert fakes.calls == ["a", "a", "a", "lead", "a", "a", "a", "lead"]
    assert result.status == "degraded"


async def test_where_nobody_can_finish_the_team_fails() -> None:
    fakes = FakeMembers()
    members = {name: fakes.member(name, Refused("trouble")) for name in ("lead", "a")}
    result, events = await run(collaboration(fakes, [{"id": "a"}], members=members))
    assert result.status == "failed"
    assert statuses(events) == ["executing", "fallback"]


async def test_a_phase_of_an_optional_member_is_skipped() -> None:
    fakes = FakeMembers()
    a = fakes.member("a", Refused("trouble"), optional=True)
    result, events = await run(collaboration(fakes, [{"id": "a"}, {"id": "b"}], members={"a": a}))
    assert result.status == "degraded"
    assert "a skip_step" in steps_of(events)


async def test_a_short_budget_closes_with_the_answer_of_the_lead() -> None:
    fakes = FakeMembers()
    steps = [{"id": name, "needs": list(before)} for name, before in (("a", ""), ("b", "a"), ("c", "b"))]
    result, events = await run(collaboration(fakes, steps, team={"limits": Limits(calls=2)}))
    assert (result.stop_reason, result.output) == ("budget", "lead is done")
    assert statuses(events) == ["executing", "failed"]


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([{"id": "a", "status": "completed"}], "a run keeps the status"),
        ([{"id": "x"}], "names no agent"),
        ([{"id": "a", "agent": "nowhere"}], "nowhere"),
        ([{"id": "a", "parallel": "race"}], "parallel"),
    ],
)
def test_python_refuses_what_a_manifest_refuses(steps: list[Any], text: str) -> None:
    with pytest.raises(ManifestError, match=text):
        collaboration(FakeMembers(), steps)


def test_options_are_the_same_as_a_value_and_as_a_mapping() -> None:
    steps = (Step(id="p", parallel="competitive_parallel", agents=("a", "b"), enough=1),)
    fakes = FakeMembers()
    made = Team(
        "experts",
        members=fakes.members("lead a b"),
        strategy="collaborate",
        options=Collaborate.options(proposals=0, steps=steps),
    )
    rows = [{"id": "p", "parallel": RACE, "agents": ["a", "b"], "enough": 1}]
    assert made.settings.options == collaboration(fakes, rows, "lead a b").settings.options


@pytest.mark.parametrize("on_failure", ["skip", "collect", ladder(0)])
@pytest.mark.parametrize(
    "steps",
    [
        [{"id": "a", "required": True}, {"id": "b"}],
        [{"id": "a"}, {"id": "c", "needs": ["a"], "required": True}, {"id": "b"}],
    ],
    ids=["failed", "after a skipped one"],
)
async def test_a_team_fails_without_a_step_that_is_required(on_failure: Any, steps: list[Any]) -> None:
    fakes = FakeMembers()
    members = [fakes.member("a", Refused("trouble")), fakes.member("b"), fakes.member("c")]
    options: dict[str, Any] = {"steps": steps, "on_failure": on_failure}
    result, _ = await run(Team("t", members=members, strategy="plan", options=options))
    is_collected = on_failure == "collect" and len(steps) > 2  # it sees that its need failed, and works
    assert result.status == ("degraded" if is_collected else "failed")
    if result.failure is not None:
        assert ("trouble" if len(steps) == 2 else "is required, and nothing that it needs has a result (a)") in str(
            result.failure.message
        )


@pytest.mark.parametrize("answer", ["lead", None])
@pytest.mark.parametrize(
    ("on_failure", "status"),
    [
        ("fail", "failed"),
        ("collect", "failed"),
        (["retry"], "failed"),
        (["finish"], "fallback"),
        (["skip_step"], "failed"),
    ],
)
async def test_a_plan_ends_as_its_team_does_and_no_lead_answers_for_a_team_that_failed(
    on_failure: Any, status: str, answer: str | None
) -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    steps = [{"id": "a"}, {"id": "b", "required": True}]
    members = [fakes.member("lead"), fakes.member("a"), fakes.member("b", Refused("trouble"))]
    options: dict[str, Any] = {"lead": "lead", "answer": answer, "steps": steps, "on_failure": on_failure}
    team = Team("t", members=members, strategy="collaborate", options=options)
    async with Engine(journal) as engine:
        result = await engine.run(team, "Go.", run_id=RUN_ID)
    events = list(await journal.read(RUN_ID))
    assert [one.status for one in facts(events, TeamPlanStatus)] == ["executing", status]
    assert result.status == ("degraded" if status == "fallback" else "failed")
    assert fakes.calls.count("lead") == (1 if status == "fallback" else 0)


async def test_a_plan_without_a_lead_is_completed_with_its_last_step() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=[fakes.member("a")], strategy="expert"), "Go.", run_id=RUN_ID)
    events = list(await journal.read(RUN_ID))
    assert [one.status for one in facts(events, TeamPlanStatus)] == ["executing", "completed"]


def test_a_required_step_with_a_condition_is_refused() -> None:
    steps: list[Any] = [{"id": "a", "required": True, "when": "false"}]
    with pytest.raises(ManifestError, match="is required and has a condition"):
        Team("t", members=FakeMembers().members("a"), strategy="plan", options={"steps": steps})


@pytest.mark.parametrize("on_failure", ["skip", "collect"])
async def test_a_team_that_goes_on_without_a_step_that_did_not_pass_is_degraded_everywhere(on_failure: str) -> None:
    fakes = FakeMembers()
    steps: list[Any] = [{"id": "a", "evaluate": GATE}, {"id": "b"}]
    team = Team(
        "t", members=fakes.members("a b"), strategy="expert", options={"steps": steps, "on_failure": on_failure}
    )
    result, events = await run(team)
    (ended,) = facts(events, TeamEnded)
    assert (result.status, ended.status, ended.stop_reason) == ("degraded", "degraded", "done")


async def test_a_step_that_its_budget_did_not_cover_is_the_stop_reason_of_its_team() -> None:
    fakes = FakeMembers()
    steps: Any = [{"id": "a", "limits": {"calls": 0}}]
    result, events = await run(Team("t", members=fakes.members("a"), strategy="dag", options={"steps": steps}))
    assert [(result.status, result.stop_reason)] == [("degraded", one.stop_reason) for one in facts(events, TeamEnded)]


async def test_parts_of_a_step_under_review_reach_no_answer_before_they_pass() -> None:
    """The lead could not put them together, so nothing of the step was reviewed."""
    fakes = FakeMembers()
    lead = fakes.member("lead", lambda turn: Refused("no") if "in parts" in turn.task else None)
    parts = [{"id": "x", "agent": "a"}, {"id": "y", "agent": "b"}]
    steps = [{"id": "p", "parallel": SPLIT, "parts": parts, "evaluate": GATE}, {"id": "c"}]
    result, _ = await run(collaboration(fakes, steps, members={"lead": lead}, on_failure=ladder(0)))
    assert result.status == "degraded"
    assert [message.name for message in fakes.last_turn("lead").history] == ["c"]


async def test_parts_that_were_never_put_together_are_not_the_answer() -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", lambda turn: Refused("no") if "in parts" in turn.task else None)
    parts = [{"id": "x", "agent": "a"}, {"id": "y", "agent": "b"}]
    steps = [{"id": "c"}, {"id": "p", "parallel": SPLIT, "parts": parts, "evaluate": GATE}]
    result, _ = await run(collaboration(fakes, steps, members={"lead": lead}, on_failure=ladder(0), answer="p"))
    assert (result.status, result.output) == ("degraded", "c is done")


async def test_who_succeeds_a_lead_hands_out_the_steps_too() -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    await journal.send(RUN_ID, RemoveMember(member="lead"))
    team = Team(
        "t", members=fakes.members("lead a b"), strategy="lead_subagent", options={"steps": [{"id": "x"}, {"id": "y"}]}
    )
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID)
    assert result.status == "completed", result.warnings
    assert set(fakes.calls) == {"a", "b"}


async def test_without_a_plan_the_judge_of_all_work_gets_no_step() -> None:
    fakes = FakeMembers()
    passed = {"criteria": [{"id": "good", "passed": True, "score": 1, "reason": "Yes."}], "feedback": ""}
    members = [fakes.member("lead", lambda turn: "no plan" if turn.output_schema else None), fakes.member("a")]
    members.append(fakes.member("judge", json.dumps(passed)))
    review = {"judge": "judge", "criteria": [{"id": "good", "judge": "Is it good?"}]}
    options: dict[str, Any] = {"lead": "lead", "evaluate": review, "on_planner_failure": "step_each"}
    result, _ = await run(Team("t", members=members, strategy="live", options=options))
    assert (result.status, result.output) == ("degraded", "lead is done")
    assert fakes.calls == ["lead", "lead", "a", "judge", "lead", "judge"]


@pytest.mark.parametrize("calls", [5, 6, 7])
@pytest.mark.parametrize("by", ["lead", "step"])
async def test_the_budget_keeps_back_what_the_review_of_the_answer_needs(by: str, calls: int) -> None:
    fakes = FakeMembers()
    passed = {"criteria": [{"id": "good", "passed": True, "score": 1, "reason": "Yes."}], "feedback": ""}
    review = {"judge": "judge", "criteria": [{"id": "good", "judge": "Is it good?"}]}
    steps: list[Any] = [{"id": name} for name in "abc"]
    if by == "step":
        steps.append({"id": "end", "agent": "lead", "needs": ["a", "b", "c"]})
    options: dict[str, Any] = {"lead": "lead", "evaluate": review, "steps": steps, "max_parallel": 1}
    options |= {"answer": "lead"} if by == "lead" else {}
    members = [*fakes.members("lead a b c"), fakes.member("judge", json.dumps(passed))]
    team = Team("t", members=members, strategy="expert", options=options, limits=Limits(calls=calls))
    result, _ = await run(team)
    assert (result.status, result.stop_reason, result.output) == ("degraded", "budget", "lead is done")
    assert fakes.calls[-2:] == ["lead", "judge"]
