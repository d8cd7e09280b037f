"""What models write of a plan: read with what they add, repaired where that is possible, refused in words where not.

They set no limits, keys or code, and their milestones are questions to the lead.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import JsonValue

from teamwright.agents.json_schema import check
from teamwright.experts.competition import choice_schema, read_choice
from teamwright.strategies.plan.planned_steps import (
    APPROVAL_SCHEMA,
    PlannedChange,
    PlannedStep,
    ReadSteps,
    StepForm,
    change_of,
    distinct_steps,
    example_answer,
    proposal_in,
    read_form,
    read_plan,
)
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.limits import Limits
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.plan import Plan, Roster, Step
from teamwright.values.turns.turn import Reply

ROLES = ["writer", "critic"]
TEAM = Roster(("lead", "a", "b"), "lead")
FORM = StepForm(ROLES, TEAM, declared=ROLES)
FREE = StepForm(ROLES, TEAM, declared=ROLES, create_roles=True)
SHARED = StepForm(["a", "b"], TEAM, shared=True)
GOOD: list[Any] = [
    {"id": "draft", "role": "writer", "task": "Write."},
    {"id": "check", "role": "critic", "task": "Check.", "needs": ["draft"]},
]


def said(value: Any) -> Reply:
    return Reply.of("a", value if isinstance(value, str) else json.dumps(value))


def read(value: Any, most: int = 5, form: StepForm = FORM) -> ReadSteps | ParseFailure:
    return read_plan(said(value), form, most)


def made(value: Any, most: int = 5, form: StepForm = FORM) -> list[tuple[str, str | None, tuple[str, ...]]]:
    found = read(value, most, form)
    assert isinstance(found, ReadSteps), found
    return [(one.id, one.role or one.agent, one.needs) for one in found.steps]


@pytest.mark.parametrize("value", [{"steps": GOOD}, GOOD, {"steps": [{**one, "why": "so"} for one in GOOD]}])
def test_a_plan_is_read_with_the_additions_of_models(value: JsonValue) -> None:  # K-05
    assert made(value) == [("draft", "writer", ()), ("check", "critic", ("draft",))]


def test_a_role_in_another_case_is_the_role() -> None:
    assert made([{"id": "a", "role": " Writer", "task": "t"}]) == [("a", "writer", ())]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"steps": []}, "at 'steps'"),
        ([{**GOOD[0], "role": "poet"}], "the role 'poet', which does not exist"),
        ("done", ""),
    ],
)
def test_a_plan_that_can_not_be_repaired_is_refused_with_the_reason(value: JsonValue, problem: str) -> None:  # K-05
    found = read(value)
    assert isinstance(found, ParseFailure)
    assert problem in found.problem


@pytest.mark.parametrize(
    ("needs", "said_about_it"),
    [
        ([""], "a blank need of 'draft' was dropped"),
        (["draft"], "'draft' can't need itself"),
        (["nothing"], "'draft' needs 'nothing', which is no step, so the need was dropped"),
        (["check"], "'draft' needs 'check', which needs it, so the need was dropped"),
    ],
)
def test_needs_that_mean_nothing_are_dropped_and_that_is_said(needs: list[str], said_about_it: str) -> None:
    found = read([{**GOOD[0], "needs": needs}, GOOD[1]])
    assert isinstance(found, ReadSteps)
    assert [one.needs for one in found.steps] == [(), ("draft",)]
    assert found.repaired == (said_about_it,)


def test_steps_of_one_id_become_one_or_get_ids_of_their_own() -> None:
    other = {**GOOD[0], "task": "Draft another."}
    found = read([GOOD[0], GOOD[0], other, {**other, "task": "And a third."}, GOOD[1]])
    assert isinstance(found, ReadSteps)
    assert [one.id for one in found.steps] == ["draft", "draft-2", "draft-3", "check"]
    assert found.repaired == (
        "'draft' was planned twice, and is done once",
        "another step is called 'draft', so one is 'draft-2'",
        "another step is called 'draft', so one is 'draft-3'",
    )


def test_ids_that_can_not_name_a_step_are_changed_and_so_are_needs_of_them() -> None:
    first = {**GOOD[0], "id": "web shop"}
    found = read(
        [first, {**GOOD[1], "id": "分析", "needs": ["web shop"]}, {**GOOD[1], "id": "end!", "needs": ["分析"]}]
    )
    assert isinstance(found, ReadSteps)
    assert [(one.id, one.needs) for one in found.steps] == [
        ("web-shop", ()),
        ("step-2", ("web-shop",)),
        ("end", ("step-2",)),
    ]
    assert found.repaired[0] == "'web shop' can't name a step, so it is 'web-shop'"


def test_thousands_of_steps_of_one_id_are_renamed_in_linear_work() -> None:
    planned = [PlannedStep(id="a", task=str(number)) for number in range(20_000)]
    assert distinct_steps(planned, [])[-1].id == "a-20000"


def test_a_need_of_a_later_step_that_needs_nothing_of_it_stays() -> None:
    assert made([{**GOOD[0], "needs": ["check"]}, {**GOOD[1], "needs": []}])[0] == ("draft", "writer", ("check",))


def test_steps_beyond_the_limit_are_part_of_the_last_one() -> None:
    five = [{"id": f"s{number}", "role": "writer", "task": f"Task {number}.", "needs": ["s0"]} for number in range(5)]
    found = read(five, most=3)
    assert isinstance(found, ReadSteps)
    assert [one.id for one in found.steps] == ["s0", "s1", "s2"]
    assert found.steps[-1].task == "Task 2.\nTask 3.\nTask 4."
    assert "5 steps were planned, and at most 3 are allowed" in found.repaired[0]


@pytest.mark.parametrize("role", ["Data Analyst", "分析师", "r" * 100])
@pytest.mark.parametrize("form", [FORM, FREE])
def test_a_role_whose_name_is_none_is_a_mistake_of_the_plan(role: str, form: StepForm) -> None:  # K-05
    found = read([{"id": "a", "role": role, "task": "t", "instructions": "You analyse."}], form=form)
    assert isinstance(found, ParseFailure)
    assert repr(role)[:20] in found.problem


def test_a_new_role_needs_leave_and_instructions() -> None:
    new: dict[str, JsonValue] = {**GOOD[0], "role": "sceptic"}
    refused, unclear = read([new]), read([new], form=FREE)
    assert isinstance(refused, ParseFailure)
    assert "which does not exist" in refused.problem
    assert isinstance(unclear, ParseFailure)
    assert "needs instructions" in unclear.problem
    assert made([{**new, "instructions": "You doubt."}], form=FREE) == [("draft", "sceptic", ())]


def test_all_mistakes_of_a_plan_are_named_at_once() -> None:
    found = read([{**GOOD[0], "role": "poet"}, {**GOOD[1], "role": "singer"}])
    assert isinstance(found, ParseFailure)
    assert "'poet'" in found.problem
    assert "'singer'" in found.problem


def test_what_a_model_writes_is_no_template() -> None:
    found = read([{**GOOD[0], "task": "Fill in {{ name }}."}])
    assert isinstance(found, ReadSteps)
    assert found.steps[0].task != "Fill in {{ name }}."


def test_a_model_can_not_set_limits_keys_or_checks_that_run_code() -> None:
    row: JsonValue = {
        "id": "p",
        "agent": "a",
        "limits": {"calls": 1000},
        "owns": ["**"],
        "evaluate": {"criteria": [{"id": "x", "command": ["rm", "-rf", "/"]}]},
        "status": "completed",
    }
    found = read([row], form=SHARED)
    assert isinstance(found, ReadSteps)
    assert found.steps == (Step(id="p", agent="a"),)


def test_what_people_set_of_a_step_stays() -> None:
    checks = Evaluate(criteria=(Criterion(id="x", contains="y"),))
    before = Step(id="p", limits=Limits(calls=1), owns=("src",), evaluate=checks)
    change = PlannedChange(put=(PlannedStep(id="p", role="b", milestone=("Is it good?",)),))
    found = change_of(change, SHARED, Plan(steps=(before,)))
    assert not isinstance(found, ParseFailure)
    (after,) = found.put
    assert (after.agent, after.limits, after.owns, after.evaluate) == ("b", before.limits, ("src",), before.evaluate)


def test_the_milestone_of_a_model_is_a_question_to_the_lead() -> None:
    found = read([{"id": "p", "agent": "a", "milestone": ["Is it good?", " "]}], form=SHARED)
    assert isinstance(found, ReadSteps)
    evaluate = found.steps[0].evaluate
    assert evaluate is not None
    assert (evaluate.judge, [one.judge for one in evaluate.criteria]) == ("lead", ["Is it good?"])


@pytest.mark.parametrize("form", [FORM, FREE, SHARED])
def test_examples_fit_their_schemas(form: StepForm) -> None:
    schemas = (
        form.plan_schema(5),
        form.plan_schema(5, reason=True),
        form.decision_schema(5),
        form.decision_schema(5, first=True),
        form.change_schema(5),
    )
    for schema in (*schemas, APPROVAL_SCHEMA):
        check(schema, example_answer(schema, 1), "the example")


@pytest.mark.parametrize("form", [FORM, FREE])
def test_a_simulated_planner_answers_with_a_plan_that_can_be_read(form: StepForm) -> None:
    example = example_answer(form.plan_schema(5), 1)
    assert made(example) == [("step-1", "writer", ()), ("step-2", "critic", ("step-1",))]
    assert example_answer(form.decision_schema(5), 2) == {"action": "answer"}
    assert example_answer({"type": "object"}, 1) is None


def test_the_bounds_of_a_plan_are_in_the_schema_that_constrains_it() -> None:
    schema: Any = FORM.plan_schema(3)
    steps = schema["properties"]["steps"]
    assert (steps["maxItems"], steps["items"]["properties"]["role"]["enum"]) == (3, ROLES)


@pytest.mark.parametrize("form", [FORM, FREE, SHARED])
def test_every_text_and_list_that_a_lead_writes_is_bounded(form: StepForm) -> None:  # small models write without end
    schemas = (form.plan_schema(5, reason=True), form.decision_schema(5), form.change_schema(5))

    def unbounded(schema: Any) -> list[Any]:
        if not isinstance(schema, dict):
            return []
        inner = [one for part in schema.values() for one in unbounded(part)]
        wanted = {"string": {"maxLength", "enum"}, "array": {"maxItems"}}.get(str(schema.get("type")))
        return [*inner, schema] if wanted and not wanted & schema.keys() else inner

    assert [one for schema in schemas for one in unbounded(schema)] == []


def test_a_choice_has_to_name_an_answer() -> None:
    assert isinstance(read_choice(said({"winner": "answer-9"}), ["answer-1"]), ParseFailure)
    assert isinstance(read_choice(said("the first"), ["answer-1"]), ParseFailure)
    choice = read_choice(said({"winner": " answer-1 ", "reason": "short"}), ["answer-1"])
    assert not isinstance(choice, ParseFailure)
    assert (choice.winner, choice.reason) == ("answer-1", "short")
    assert choice_schema(["x"])["required"] == ["winner", "reason"]


def test_a_proposal_stands_in_a_reply_beside_its_text() -> None:
    text = 'It is done.\n```json\n{"plan_change": {"remove": ["b"], "reason": "not needed"}}\n```'
    assert proposal_in(said(text)) == PlannedChange(remove=("b",), reason="not needed")
    assert proposal_in(said("I would not make a plan_change now.")) is None
    assert isinstance(proposal_in(said({"plan_change": {"put": 3}})), ParseFailure)


def test_a_form_is_read_with_fields_that_models_add() -> None:
    found = read_form(said({"put": [{"id": "p", "mood": "good"}], "thoughts": "…"}), PlannedChange)
    assert found == PlannedChange(put=(PlannedStep(id="p"),))


@pytest.mark.parametrize(
    ("value", "steps"),
    [
        ([{"id": 1, "role": "writer", "task": "W."}, {"id": 2, "role": "critic", "task": "C.", "needs": [1]}], None),
        (
            [{"id": "1", "role": "writer", "task": "W."}, {"id": "2", "role": "critic", "task": "C.", "needs": "1"}],
            None,
        ),
        ([{"id": "1", "role": ["writer"], "task": "W.", "needs": None}], [("1", "writer", ())]),
        ({"plan": {"steps": [{"id": "1", "role": "writer", "task": "W."}]}}, [("1", "writer", ())]),
        ({"plan": [{"id": "1", "role": "writer", "task": "W."}]}, [("1", "writer", ())]),
        ({"steps": {"1": {"role": "writer", "task": "W."}}}, [("1", "writer", ())]),
        ({"steps": {"id": "1", "role": "writer", "task": "W."}}, [("1", "writer", ())]),
        ([{"role": "writer", "task": "W."}], [("step-1", "writer", ())]),
    ],
)
def test_a_plan_is_read_as_small_models_write_it(value: Any, steps: list[Any] | None) -> None:
    assert made(value) == (steps or [("1", "writer", ()), ("2", "critic", ("1",))])


def test_a_step_with_no_role_is_for_anyone_of_a_pool() -> None:
    pool = StepForm(["a", "b"], TEAM, pool=True)
    assert made([{"id": "x", "role": None, "task": "Go."}], form=pool) == [("x", None, ())]


def test_what_can_not_be_read_is_told_in_words_of_json() -> None:
    found = read({"steps": "later"})
    assert isinstance(found, ParseFailure)
    assert "tuple" not in found.problem.lower()
