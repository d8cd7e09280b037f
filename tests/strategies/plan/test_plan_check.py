"""Every mistake in a plan is found at once, each with its place."""

from __future__ import annotations

from typing import Any

import pytest

from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.plan_check import plan_problems, steps_flaws
from teamwright.teams.preflight import check_team
from teamwright.teams.team import Team
from teamwright.values.specs.plan import Plan, Roster, Step
from tests.kit.members import FakeMembers

TEAM = Roster(("lead", "a", "b", "c"), "lead")
SPLIT, RACE = "subtask_parallel", "competitive_parallel"


def judged(judge: str) -> dict[str, Any]:
    return {"judge": judge, "criteria": [{"id": "q", "judge": "Good?"}]}


def phases(*rows: dict[str, Any]) -> tuple[Step, ...]:
    return tuple(Step.model_validate(row) for row in rows)


@pytest.mark.parametrize(
    ("row", "field", "text"),
    [
        ({"agents": ["a", "b"]}, "agents", "is serial and has 'agents'"),
        ({"id": "x"}, "id", "names no agent"),
        ({"agent": "d"}, "agent", "names 'd', which is not of the team"),
        ({"agent": "a", "merge": "vote"}, "merge", "only a competition"),
        ({"agent": "a", "enough": 1}, "enough", "only a competition"),
        ({"id": "a", "parts": [{"id": "p", "agent": "b"}]}, "parts", "subtask_parallel"),
        ({"parallel": SPLIT, "agents": ["a"], "parts": [{"id": "p", "agent": "b"}]}, "agents", "keep one of them"),
        ({"parallel": SPLIT, "parts": [{"id": "p", "agent": "z"}]}, "parts", "not of the team"),
        ({"parallel": SPLIT, "parts": [{"id": "p", "agent": "a"}] * 2}, "parts", "two parts 'p'"),
        ({"parallel": SPLIT, "parts": [{"id": "p q", "agent": "a"}]}, "parts", "a name has letters"),
        ({"parallel": SPLIT, "parts": [{"id": "p", "agent": "a", "task": "{{ nothing }}"}]}, "parts", "nothing"),
        ({"parallel": RACE, "agents": ["a"]}, "agents", "a competition of 1"),
        ({"parallel": RACE, "agents": ["a", "b"], "enough": 2}, "enough", "fewer would end it early"),
        ({"parallel": RACE, "agent": "a"}, "agent", "name the competitors"),
        ({"agent": "a", "task": "{{ outputs.y }}"}, "task", "no step that it needs"),
        ({"agent": "a", "when": "1 +"}, "when", "condition"),
        ({"agent": "a", "needs": ["nowhere"]}, "needs", "nowhere"),
        ({"agent": "a", "evaluate": {"criteria": [{"id": "q", "judge": "Good?"}]}}, "evaluate", "needs a judge"),
        ({"parallel": SPLIT, "evaluate": judged("lead")}, "evaluate", "would judge its own work"),
        ({"parallel": RACE, "merge": "fusion", "evaluate": judged("lead")}, "evaluate", "would judge its own work"),
        ({"parallel": RACE, "agents": ["a", "b"], "evaluate": judged("b")}, "evaluate", "would judge its own work"),
    ],
)
def test_a_mistake_is_named_with_its_place(row: dict[str, Any], field: str, text: str) -> None:
    found = steps_flaws(phases({"id": "p", **row}), TEAM, PlanOptions())
    assert [(flaw.at[:3], text in flaw.text) for flaw in found] == [(("steps", 0, field), True)], found


def test_all_mistakes_are_found_at_once() -> None:
    rows = phases({"id": "p", "needs": ["q"]}, {"id": "q", "needs": ["p"], "agent": "z"}, {"id": "r", "agents": ["a"]})
    found = plan_problems(Plan(steps=rows), TEAM)
    assert len(found) == 4
    assert "'p' needs 'q' needs 'p'" in found[0]


def test_tasks_read_variables_and_the_phases_that_they_need() -> None:
    rows = phases({"id": "a"}, {"id": "b", "needs": ["a"], "task": "{{ outputs.a }} {{ variables.topic }} {{ task }}"})
    assert steps_flaws(rows, TEAM, PlanOptions()) == []


def test_without_names_all_members_but_the_lead_compete() -> None:
    (row,) = phases({"id": "p", "parallel": RACE})
    assert row.workers(TEAM) == ("a", "b", "c")
    assert steps_flaws((row,), TEAM, PlanOptions()) == []
    assert steps_flaws((row,), Roster(("lead", "a"), "lead"), PlanOptions())


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"on_planner_failure": "finish"}, "on_planner_failure"),
        ({"lead": "lead", "on_planner_failure": "finish"}, "on_planner_failure"),
        ({"create_roles": True}, "create_roles"),
        ({"lead": "lead", "create_roles": True}, "create_roles"),
        ({"shared_steps": True}, "shared_steps"),
        ({"max_steps": 3}, "max_steps"),
        ({"proposals": 2}, "proposals"),
        ({"rounds_of_talk": 2}, "rounds_of_talk"),
        ({"run_budget": 900}, "run_budget"),
        ({"coordination_floor": 9}, "coordination_floor"),
        ({"revisions": 1}, "revisions"),
        ({"risk": "high"}, "risk"),
    ],
)
def test_a_setting_that_changes_nothing_is_named_with_what_it_needs(options: dict[str, Any], name: str) -> None:
    settings: dict[str, Any] = {"steps": [{"id": "a"}, {"id": "lead"}], **options}
    (warning,) = check_team(Team("t", members=FakeMembers().members("lead a"), strategy="plan", options=settings))
    assert f"{name} changes nothing: " in str(warning)
    assert "or remove it" in str(warning)


@pytest.mark.parametrize(
    "options",
    [
        {"lead": "lead", "steps": [], "on_planner_failure": "finish", "create_roles": True, "max_steps": 3},
        {"lead": "lead", "proposals": 2, "shared_steps": True, "create_roles": True, "on_failure": ["replan"]},
        {"handout": "batch", "talk": "all", "rounds_of_talk": 2, "run_budget": 900, "coordination_floor": 9},
        {"evaluate": {"criteria": [{"id": "long", "length": {"min": 3}}]}, "revisions": 1, "risk": "high"},
        {"rounds_of_talk": 1, "risk": "medium", "proposals": 0},
    ],
)
def test_settings_that_change_something_are_not_named(options: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"steps": [{"id": "a"}, {"id": "b", "needs": ["a"]}], "pool": True, **options}
    members = FakeMembers().members("lead a b")
    assert not check_team(Team("t", members=members, strategy="plan", options=settings))
