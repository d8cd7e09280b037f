"""Planning again after failures: what is done stays done, and another plan needs a reason that was not given before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.errors import ManifestError, Refused
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.team import (
    TeamEnded,
    TeamPlanChanged,
    TeamReplyRejected,
    TeamStepCompleted,
    TeamStepFailed,
)
from teamwright.values.limits import Limits
from teamwright.values.people import Answer, Question
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn
from tests.kit.ladders import ladder
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import RUN_ID, TASK, run

FIRST = [
    {"id": "look", "role": "ana", "task": "Look."},
    {"id": "dig", "role": "bad", "task": "Dig.", "needs": ["look"]},
    {"id": "tell", "role": "ben", "task": "Tell.", "needs": ["dig"]},
]
AGAIN = {
    "reason": "ben can dig",
    "steps": [
        {"id": "dig-2", "role": "ben", "task": "Dig.", "needs": ["look"]},
        {"id": "tell", "role": "ben", "task": "Tell.", "needs": ["dig-2"]},
    ],
}


def planner(*again: object) -> Any:
    """Plan, then give these plans one after the other."""
    left: list[object] = [{"steps": FIRST}, *again]

    def plan(turn: Turn) -> object:
        said = left.pop(0)
        return said if isinstance(said, Exception | str) else json.dumps(said)

    return plan


def team(fakes: FakeMembers, plan: object, *, ana: object = None, limits: Limits | None = None, **options: Any) -> Team:
    answers: dict[str, object] = {"bad": Refused("the secret reason"), "ana": ana}
    members = [fakes.member(name, answers.get(name)) for name in ("ana", "bad", "ben")]
    given: dict[str, Any] = {"lead": "planner", "on_failure": ladder(0, replan=2), **options}
    helpers = [fakes.member("planner", plan)]
    return Team("t", members=members, helpers=helpers, strategy="expert", options=given, limits=limits)


def facts(events: Sequence[Event], kind: type) -> list[Any]:
    return [event.fact for event in events if isinstance(event.fact, kind)]


async def test_after_a_failure_the_planner_plans_the_rest_again_and_what_is_done_stays_done() -> None:  # K-05, K-06
    fakes = FakeMembers()
    result, events = await run(team(fakes, planner(AGAIN)))
    assert (result.status, result.output, result.warnings) == ("completed", "ben is done", ())
    assert fakes.calls == ["planner", "ana", "bad", "planner", "ben", "ben"]
    assert [(one.step, one.rung) for one in facts(events, TeamStepFailed)] == [("dig", "replan")]
    assert [(one.step, one.state) for one in facts(events, TeamStepCompleted)] == [
        ("look", "completed"), ("dig", "failed"), ("dig-2", "completed"), ("tell", "completed"),
    ]  # fmt: skip
    assert [message.name for message in fakes.last_turn("ben").history] == ["user", "dig-2"]


async def test_the_planner_sees_what_is_done_and_lost_and_never_why_it_failed() -> None:
    fakes = FakeMembers()
    await run(team(fakes, planner(AGAIN)))
    turn = fakes.last_turn("planner")
    assert turn.purpose == "coordinate"
    assert [(one.name, one.content) for one in turn.history] == [("look", "ana is done")]
    for line in ("look (ana): Look.: done", "dig (bad, after look): Dig.: failed", "Tell.: not started", TASK):
        assert line in turn.task
    assert "secret" not in turn.prompt


async def test_each_plan_is_a_version_with_its_reason_and_its_difference() -> None:
    _, events = await run(team(FakeMembers(), planner(AGAIN)))
    first, second = facts(events, TeamPlanChanged)
    assert (first.plan_version, first.by, [line[0] for line in first.difference]) == (1, "planner", ["+"] * 3)
    assert (second.plan_version, second.reason) == (2, "ben can dig")
    assert second.difference == (
        "+ dig-2 (ben, after look): Dig.",
        "- dig (bad, after look): Dig.",
        '~ tell: needs: ["dig"] → ["dig-2"]',
    )


BAD_AGAIN = {"reason": "bad deserves  ANOTHER go", "steps": [{"id": "dig-2", "role": "bad", "task": "Dig."}]}


async def test_a_reason_that_was_given_before_is_refused_and_told() -> None:
    fakes = FakeMembers()
    same = {"reason": " Bad deserves another go", "steps": [{"id": "dig-3", "role": "ben", "task": "Dig."}]}
    other = {**same, "reason": "ben is free"}
    result, events = await run(team(fakes, planner(BAD_AGAIN, same, other)))
    assert (result.status, result.output) == ("completed", "ben is done")
    (told,) = facts(events, TeamReplyRejected)
    assert told.problem == "its reason was given before: 'Bad deserves another go'; another plan needs a new one"
    assert told.problem in fakes.last_turn("planner").task
    assert "- bad deserves  ANOTHER go" in fakes.last_turn("planner").task
    assert [one.plan_version for one in facts(events, TeamPlanChanged)] == [1, 2, 3]


async def test_a_plan_that_touches_what_is_done_or_lost_is_told_all_its_mistakes() -> None:
    wrong = {"steps": [{"id": "look", "role": "ana", "task": "L."}, {"id": "dig", "role": "ben", "task": "D."}]}
    result, events = await run(team(FakeMembers(), planner(wrong, AGAIN)))
    assert result.status == "completed"
    (told,) = facts(events, TeamReplyRejected)
    assert told.problem == (
        "it gives no reason; the step 'look' has ended, and what is done stays done; leave it out; the step 'dig'"
        " failed; give what replaces it another id"
    )


@pytest.mark.parametrize("again", [{"reason": "all is done", "steps": []}, "The plan is complete.", Refused("no")])
async def test_a_planner_can_not_declare_the_plan_done(again: object) -> None:
    fakes = FakeMembers()
    result, events = await run(team(fakes, planner(again, again, again, again)))
    assert result.status == "degraded"
    assert "tell" not in {one.step for one in facts(events, TeamStepCompleted)}
    assert [one.rung for one in facts(events, TeamStepFailed)] == ["replan", "skip_step"]
    assert [event.fact.to_json()["step"] for event in events if event.kind == "step.skipped"] == ["tell"]


async def test_without_another_plan_a_step_that_can_not_be_skipped_fails_the_team() -> None:
    rungs = ladder(0, replan=2, skip_step=False)
    result, events = await run(team(FakeMembers(), planner("no", "no"), on_failure=rungs))
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert [(one.rung, one.passed_over) for one in facts(events, TeamStepFailed)] == [
        ("replan", ("upgrade_model", "downgrade_model")), ("abort_team", ("replan",)),
    ]  # fmt: skip


async def test_planning_again_is_bounded_and_the_ladder_goes_on_after_it() -> None:
    fakes = FakeMembers()
    plans = [
        {"reason": f"try {number}", "steps": [{"id": f"dig-{number}", "role": "bad", "task": "Dig."}]}
        for number in range(9)
    ]
    result, events = await run(team(fakes, planner(*plans)))
    assert result.status == "degraded"
    assert fakes.calls.count("planner") == 3
    assert [one.rung for one in facts(events, TeamStepFailed)] == ["replan", "replan", "skip_step"]


async def test_steps_that_run_beside_a_failed_one_end_before_the_planner_plans_again() -> None:
    fakes = FakeMembers()
    steps = [{"id": "dig", "role": "bad", "task": "Dig."}, {"id": "look", "role": "ana", "task": "Look."}]
    again = {"reason": "ben can", "steps": [{"id": "sum", "role": "ben", "task": "Sum.", "needs": ["look"]}]}

    async def slow(turn: Turn) -> str:
        await anyio.sleep(0.05)
        return "seen"

    left: list[object] = [{"steps": steps}, again]
    result, _ = await run(team(fakes, lambda turn: json.dumps(left.pop(0)), ana=slow))
    assert result.status == "completed"
    assert [one.content for one in fakes.last_turn("planner").history] == ["seen"]
    assert fakes.calls[3:] == ["planner", "ben"]


async def test_work_that_exceeds_its_review_needs_a_person_and_no_other_plan() -> None:  # K-09
    fakes = FakeMembers()
    rubric = {"criteria": [{"id": "never", "contains": "never said"}]}
    result, events = await run(team(fakes, planner(AGAIN), evaluate=rubric, max_feedback_rounds=1))
    assert (result.status, result.stop_reason) == ("failed", "review_exceeded")
    assert fakes.calls.count("planner") == 1
    assert [event.kind for event in events].count("team.handoff") == 1


async def test_a_budget_that_does_not_cover_another_plan_leaves_the_rest_of_the_ladder() -> None:
    result, events = await run(team(FakeMembers(), planner(AGAIN), limits=Limits(calls=3)))
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    assert [one.rung for one in facts(events, TeamStepFailed)] == ["replan", "skip_step"]


async def test_a_person_confirms_the_difference_alone() -> None:  # K-15
    fakes, seen = FakeMembers(), list[Question]()
    given = team(fakes, planner(AGAIN), confirm=True)
    async with Engine("memory") as engine:
        result = await engine.run(given, TASK, run_id="r")
        while result.status == "paused":
            ((key, question),) = (await engine.runs.history("r")).questions().items()
            seen.append(question)
            await engine.runs.answer("r", key, Answer.approve())
            result = await engine.resume("r", team=given)
    assert (result.status, result.output) == ("completed", "ben is done")
    _, second = seen
    assert "+ dig-2 (ben, after look): Dig." in second.text
    assert "look (ana)" not in second.text
    assert [step["id"] for step in json.loads(second.draft or "")["put"]] == ["dig-2", "tell"]


async def test_without_a_planner_nobody_can_plan_again() -> None:
    with pytest.raises(ManifestError, match="only a lead can plan again"):
        Team("t", members=FakeMembers().members("a b"), strategy="expert", options={"on_failure": ladder(replan=1)})


ROLES = st.sampled_from(["ana", "ben", "bad"])


@given(
    first=st.lists(ROLES, min_size=1, max_size=3),
    again=st.lists(st.lists(ROLES, max_size=3), max_size=3),
    reasons=st.lists(st.sampled_from(["one", "two", " ONE ", ""]), min_size=9, max_size=9),
    most=st.integers(0, 3),
    skip=st.booleans(),
    calls=st.none() | st.integers(1, 9),
    cut=st.floats(0, 1),
)
def test_whatever_is_planned_and_fails_the_team_ends_once_within_its_budget_and_resumes(
    first: list[str], again: list[list[str]], reasons: list[str], most: int, skip: bool, calls: int | None, cut: float
) -> None:
    said = [
        {"reason": reason, "steps": _steps(roles, f"r{number}")}
        for number, (roles, reason) in enumerate(zip([*again, *[[]] * 9], reasons, strict=False))
    ]

    def make(fakes: FakeMembers) -> Team:
        def plan(turn: Turn) -> str:
            if turn.number == 1:
                return json.dumps({"steps": _steps(first, "s")})
            return json.dumps(said[2 * (turn.number - 2) + ("could not be used" in turn.task)])

        limits = None if calls is None else Limits(calls=calls)
        rungs = ladder(0, replan=most, skip_step=skip)
        return team(fakes, plan, limits=limits, on_failure=rungs, max_parallel=2)

    anyio.run(_check, make, calls, most, skip, cut)


def _steps(roles: list[str], prefix: str) -> list[dict[str, str]]:
    return [{"id": f"{prefix}-{place}", "role": role, "task": "Work."} for place, role in enumerate(roles)]


async def _check(make: Any, calls: int | None, most: int, skip: bool, cut: float) -> None:
    fakes, journal = FakeMembers(), MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            result = await engine.run(make(fakes), TASK, run_id=RUN_ID)
    events = list(await journal.read(RUN_ID))
    (ending,) = facts(events, TeamEnded)
    assert ending.status == result.status
    assert calls is None or len(fakes.calls) <= calls
    assert sum(one.rung == "replan" for one in facts(events, TeamStepFailed)) <= 3 * most
    versions = facts(events, TeamPlanChanged)
    assert len({" ".join(one.reason.lower().split()) for one in versions}) == len(versions) <= max(1, 1 + most)
    _check_ending(result, events, skip)
    kept = 1 + int(cut * (len(events) - 2))
    resumed, _ = await cut_and_resume(make(FakeMembers()), kept, journal)
    if calls is not None and _has_call_in_doubt(events[:kept]):
        assert resumed.status in {result.status, "degraded", "failed"}, "the call is charged twice, and may be the last"
    else:
        assert (resumed.status, resumed.output) == (result.status, result.output)


def _has_call_in_doubt(events: Sequence[Event]) -> bool:
    ended = {one.key for one in events if one.kind in {"agent.returned", "agent.call_failed"}}
    return any(one.kind == "agent.called" and one.key not in ended for one in events)


def _check_ending(result: RunResult, events: list[Event], skip: bool) -> None:
    rungs = {one.rung for one in facts(events, TeamStepFailed)}
    if "abort_team" in rungs:
        assert (result.status, skip) == ("failed", False)
    elif not rungs & {"skip_step"} and result.stop_reason == "done":
        assert result.status == "completed"
