"""The plan of a planner: read from its answer, with every mistake in its words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import JsonValue

from teamwright.strategies.plan.planned_steps import example_plan, plan_schema, read_plan
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.turns.turn import Reply

ROLES = ["writer", "critic"]
GOOD: list[Any] = [
    {"id": "draft", "role": "writer", "task": "Write."},
    {"id": "check", "role": "critic", "task": "Check.", "needs": ["draft"]},
]


def read(value: JsonValue, most: int = 5) -> list[tuple[str, str | None, tuple[str, ...]]] | str:
    found = read_plan(Reply.of("p", json.dumps(value)), ROLES, most)
    return found.problem if isinstance(found, ParseFailure) else [(one.id, one.role, one.needs) for one in found.steps]


@pytest.mark.parametrize("value", [{"steps": GOOD}, GOOD, {"steps": [{**one, "why": "so"} for one in GOOD]}])
def test_a_plan_is_read_with_the_additions_of_models(value: JsonValue) -> None:  # K-05
    assert read(value) == [("draft", "writer", ()), ("check", "critic", ("draft",))]


def test_a_role_in_another_case_is_the_role() -> None:
    assert read([{"id": "a", "role": " Writer", "task": "t"}]) == [("a", "writer", ())]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"steps": []}, "at 'steps'"),
        ({"steps": [{"id": "a", "role": "writer"}]}, "at 'steps/0/task'"),
        ([{**GOOD[0], "role": "poet"}], "the role 'poet', which does not exist"),
        ([{**GOOD[0], "needs": ["draft"]}], "draft"),
        ([{**GOOD[0], "needs": ["nothing"]}], "nothing"),
        ([GOOD[0], GOOD[0]], "draft"),
        ([GOOD[0]] * 6, "6 steps, and at most 5"),
        ("done", ""),
    ],
)
def test_a_plan_that_can_not_be_executed_is_refused_with_the_reason(value: JsonValue, problem: str) -> None:  # K-05
    found = read(value)
    assert isinstance(found, str)
    assert problem in found


@pytest.mark.parametrize("role", ["Data Analyst", "分析师", " ", "r" * 100])
@pytest.mark.parametrize("create_roles", [False, True])
def test_a_role_whose_name_is_none_is_a_mistake_of_the_plan(role: str, create_roles: bool) -> None:  # K-05
    step: JsonValue = {"id": "a", "role": role, "task": "t", "instructions": "You analyse."}
    found = read_plan(Reply.of("p", json.dumps([step])), ROLES, 5, create_roles=create_roles)
    assert isinstance(found, ParseFailure)
    assert repr(role)[:20] in found.problem


def test_all_mistakes_of_a_plan_are_named_at_once() -> None:
    found = read([{**GOOD[0], "role": "poet"}, {**GOOD[1], "role": "singer"}])
    assert "'poet'" in found
    assert "'singer'" in found


def test_a_simulated_planner_answers_with_a_plan_that_can_be_read() -> None:
    example = example_plan(plan_schema(ROLES))
    assert read(example) == [("step-1", "writer", ()), ("step-2", "critic", ("step-1",))]
    assert example_plan({"type": "object"}) is None
