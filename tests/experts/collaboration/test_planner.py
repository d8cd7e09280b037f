"""The lead plans, is sent its mistakes once, and without a plan one agent does the task."""

from __future__ import annotations

from typing import Any

from teamwright.errors import Refused
from teamwright.experts.collaboration.collaborate import FALLBACK
from teamwright.values.events.plan import TeamPlanChanged
from teamwright.values.events.team import TeamToldBack
from tests.kit.collaboration import RACE, collaboration, deciding, facts, phases, statuses
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
    assert result.status == "completed"
    assert phases(events)[-1] == "title completed"
    (first,) = facts(events, TeamPlanChanged)
    assert (first.plan_version, first.by, first.lead) == (1, "lead", "lead")
    assert first.difference[0] == "+ facts (a): Find facts."
    assert "- a" in fakes.received[0][1].task


async def test_a_plan_with_mistakes_is_sent_back_once() -> None:
    fakes = FakeMembers()
    wrong: dict[str, Any] = {"steps": [{"id": "x", "agent": "nobody"}, {"id": "y", "needs": ["z"], "agent": "a"}]}
    lead = fakes.member("lead", deciding(steps=[wrong, PLAN], winner={"winner": "answer-1", "reason": "."}))
    result, events = await run(collaboration(fakes, [], members={"lead": lead}))
    assert result.status == "completed"
    (back,) = facts(events, TeamToldBack)
    assert "'nobody'" in back.problem
    assert "'z'" in back.problem
    assert back.problem in fakes.received[1][1].task


async def test_without_a_usable_plan_one_agent_does_the_task() -> None:
    fakes = FakeMembers()
    result, events = await run(collaboration(fakes, [], fallback="c"))
    assert (result.status, result.output) == ("degraded", "c is done")
    assert statuses(events) == ["fallback"]
    assert contents(fakes.last_turn("c").history) == [FALLBACK]


async def test_a_retry_may_change_other_phases_too_and_a_wrong_change_is_sent_back() -> None:
    fakes = FakeMembers()
    wrong = {"remove": ["nowhere"]}
    right = {"put": [{"id": "p", "agent": "b"}], "remove": ["later"]}
    lead = fakes.member("lead", deciding(put=[wrong, right]))
    steps: list[Any] = [{"id": "p", "agent": "a"}, {"id": "later", "agent": "c", "needs": ["p"]}]
    result, events = await run(
        collaboration(fakes, steps, members={"lead": lead, "a": fakes.member("a", Refused("no"))})
    )
    assert result.status == "completed"
    assert fakes.calls == ["a", "lead", "lead", "b", "lead"]
    assert "later in_progress" not in phases(events)
