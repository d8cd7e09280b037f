"""The lead plans, is sent its mistakes once, and without a plan one agent does the task."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from teamwright.errors import Refused
from teamwright.strategies.plan.closing import FINISH
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamEnded, TeamPlanChanged, TeamReplyRejected
from teamwright.values.limits import Limits
from teamwright.values.turns.turn import Turn
from tests.kit.collaboration import RACE, SPLIT, collaboration, deciding, facts, statuses, steps_of
from tests.kit.ladders import finishing
from tests.kit.members import FakeMembers
from tests.kit.runs import contents, run

PLAN: dict[str, Any] = {
    "steps": [
        {"id": "facts", "agent": "a", "task": "Find facts."},
        {"id": "title", "parallel": RACE, "agents": ["b", "c"], "needs": ["facts"], "task": "Find a title."},
    ]
}


async def test_the_lead_plans_where_no_phases_are_declared() -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", deciding(steps=PLAN, winner={"winner": "answer-1", "reason": "."}))
    result, events = await run(collaboration(fakes, [], members={"lead": lead}))
    assert result.status == "completed", result.warnings
    assert steps_of(events)[-1] == "title completed"
    (first,) = facts(events, TeamPlanChanged)
    assert (first.plan_version, first.by, first.lead) == (1, "lead", "lead")
    assert first.difference[0] == "+ facts (a): Find facts."
    assert "- a" in fakes.received[0][1].task


async def test_a_plan_with_mistakes_is_sent_back_once() -> None:
    fakes = FakeMembers()
    wrong: dict[str, Any] = {"steps": [{"id": "x", "agent": "nobody"}, {"id": "y", "agent": "noone"}]}
    lead = fakes.member("lead", deciding(steps=[wrong, PLAN], winner={"winner": "answer-1", "reason": "."}))
    result, events = await run(collaboration(fakes, [], members={"lead": lead}))
    assert result.status == "completed", result.warnings
    (back,) = facts(events, TeamReplyRejected)
    assert "'nobody'" in back.problem
    assert "'noone'" in back.problem
    assert back.problem in fakes.received[1][1].task


async def test_without_a_usable_plan_one_agent_does_the_task() -> None:
    fakes = FakeMembers()
    result, events = await run(collaboration(fakes, [], on_failure=finishing("c")))
    assert (result.status, result.output) == ("degraded", "c is done")
    assert statuses(events) == ["fallback"]
    assert contents(fakes.last_turn("c").history) == [FINISH]


async def test_a_retry_may_change_other_phases_too_and_a_wrong_change_is_sent_back() -> None:
    fakes = FakeMembers()
    wrong = {"remove": ["nowhere"]}
    right = {"put": [{"id": "p", "agent": "b"}], "remove": ["later"]}
    lead = fakes.member("lead", deciding(put=[wrong, right]))
    steps: list[Any] = [{"id": "p", "agent": "a"}, {"id": "later", "agent": "c", "needs": ["p"]}]
    result, events = await run(
        collaboration(fakes, steps, members={"lead": lead, "a": fakes.member("a", Refused("no"))})
    )
    assert result.status == "completed", result.warnings
    assert fakes.calls == ["a", "lead", "lead", "b", "lead"]
    assert "later starts" not in steps_of(events)


async def test_a_retry_waits_for_a_phase_that_the_lead_puts_before_it() -> None:
    fakes = FakeMembers()
    change = {"put": [{"id": "p", "agent": "b", "needs": ["facts"]}, {"id": "facts", "agent": "c"}]}
    members = {"lead": fakes.member("lead", deciding(put=change)), "a": fakes.member("a", Refused("no"))}
    result, _ = await run(collaboration(fakes, [{"id": "p", "agent": "a"}], members=members))
    assert result.status == "completed", result.warnings
    assert fakes.calls == ["a", "lead", "c", "b", "lead"]
    assert [one.name for one in fakes.last_turn("b").history] == ["plan", "facts"]


@pytest.mark.parametrize(
    "steps",
    [
        [{"id": "p", "parallel": RACE, "agents": ["a", "b"] * 11}],
        [{"id": "p", "parallel": SPLIT, "parts": [{"id": f"part-{number}", "agent": "a"} for number in range(21)]}],
    ],
)
async def test_a_plan_of_a_model_has_a_greatest_size(steps: list[Any]) -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", deciding(steps={"steps": steps}))
    result, events = await run(collaboration(fakes, [], members={"lead": lead}))
    assert (result.status, statuses(events)) == ("degraded", ["fallback"])
    assert "at most 20 are allowed" in result.warnings[0]


async def test_a_lead_that_adds_a_phase_in_each_of_its_replies_ends() -> None:
    fakes, added = FakeMembers(), count(2)

    def reply(turn: Turn) -> str:
        phase = {"id": f"p{next(added)}", "agent": "lead"}
        return f"```json\n{json.dumps({'plan_change': {'put': [phase]}})}\n```"

    steps: list[Any] = [{"id": "p1", "agent": "lead"}]
    result, events = await run(collaboration(fakes, steps, members={"lead": fakes.member("lead", reply)}, max_steps=5))
    assert result.status == "completed", result.warnings
    assert [one.plan_version for one in facts(events, TeamPlanChanged)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("phase", "judge"),
    [
        ({"agent": "a"}, "lead"),
        ({"agent": "lead"}, "a"),
        ({"parallel": SPLIT, "parts": [{"id": "x", "agent": "a"}, {"id": "y", "agent": "b"}]}, "a"),
        ({"parallel": RACE, "agents": ["a", "b"], "merge": "fusion"}, "a"),
        ({"parallel": RACE, "agents": ["lead", "a"]}, "b"),
    ],
)
async def test_a_milestone_of_the_lead_is_judged_by_no_author(phase: dict[str, Any], judge: str) -> None:
    fakes = FakeMembers()
    verdict = {"criteria": [{"id": "q1", "passed": True}]}
    plan = {"steps": [{"id": "p", "milestone": ["Is it good?"], **phase}]}

    def answers(turn: Turn) -> object:
        if turn.purpose == "judge":
            return json.dumps(verdict)
        return deciding(steps=plan, winner={"winner": "answer-1", "reason": "."})(turn)

    members = {name: fakes.member(name, answers) for name in ("lead", "a", "b", "c")}
    result, _ = await run(collaboration(fakes, [], members=members))
    assert (result.status, result.warnings) == ("completed", ())
    assert [name for name, turn in fakes.received if turn.purpose == "judge"] == [judge]


@pytest.mark.parametrize(
    ("limits", "ending"),
    [(None, ("failed", "error")), (Limits(calls=0), ("degraded", "budget"))],
    ids=["error", "budget"],
)
async def test_a_team_whose_lead_fails_to_plan_ends_as_its_run(limits: Limits | None, ending: tuple[str, str]) -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", Refused("no"))
    team = Team("t", members=[lead, *fakes.members("a b")], strategy="live", limits=limits)
    result, events = await run(team)
    assert (result.status, result.stop_reason) == ending
    assert [(one.status, one.stop_reason) for one in facts(events, TeamEnded)] == [ending]
