"""What models write of a plan: they set no limits, keys or code, and their milestones are questions to the lead."""

from __future__ import annotations

import json
from typing import Any

import pytest
from teamwright.agents.schemas import check
from teamwright.experts.collaboration.drafts import (
    ChangeDraft,
    PhaseDraft,
    PlanDraft,
    change_schema,
    example_reply,
    plan_schema,
)

from teamwright.experts.competition import choice_schema, read_choice
from teamwright.strategies.plan.plan_check import plan_problems
from teamwright.strategies.plan.planned_steps import APPROVAL_SCHEMA, proposal_in, read_form
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.limits import Limits
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.plan import Plan, Roster, Step
from teamwright.values.turns.turn import Reply

TEAM = Roster(("lead", "a", "b"), "lead")


def said(value: Any) -> Reply:
    return Reply.of("a", value if isinstance(value, str) else json.dumps(value))


def test_a_model_can_not_set_limits_keys_or_checks_that_run_code() -> None:
    row = {
        "id": "p",
        "agent": "a",
        "limits": {"calls": 1000},
        "owns": ["**"],
        "evaluate": {"criteria": [{"id": "x", "command": ["rm", "-rf", "/"]}]},
        "status": "completed",
    }
    phase = PhaseDraft.model_validate(row).phase(None, TEAM)
    assert phase == Step(id="p", agent="a")


def test_what_people_set_of_a_phase_stays() -> None:
    before = Step(
        id="p", limits=Limits(calls=1), owns=("src",), evaluate=Evaluate(criteria=(Criterion(id="x", contains="y"),))
    )
    after = PhaseDraft(id="p", agent="b", milestone=("Is it good?",)).phase(before, TEAM)
    assert (after.agent, after.limits, after.owns, after.evaluate) == ("b", before.limits, ("src",), before.evaluate)


def test_the_milestone_of_a_model_is_a_question_to_the_lead() -> None:
    evaluate = PhaseDraft(id="p", agent="a", milestone=("Is it good?", " ")).phase(None, TEAM).evaluate
    assert evaluate is not None
    assert (evaluate.judge, [one.judge for one in evaluate.criteria]) == ("lead", ["Is it good?"])


@pytest.mark.parametrize(
    "schema", [plan_schema(TEAM.members), change_schema(TEAM.members), choice_schema(["x"]), APPROVAL_SCHEMA]
)
def test_examples_fit_their_schemas(schema: dict[str, Any]) -> None:
    check(schema, example_reply(schema), "the example")


def test_an_example_plan_is_a_plan() -> None:
    draft = PlanDraft.model_validate(example_reply(plan_schema(TEAM.members)))
    plan = Plan(steps=tuple(one.phase(None, TEAM) for one in draft.steps))
    assert plan_problems(plan, TEAM) == []
    assert [phase.agent for phase in plan.steps] == ["lead", "a", "b"]
    assert example_reply({"type": "string"}) is None


def test_a_choice_has_to_name_an_answer() -> None:
    assert isinstance(read_choice(said({"winner": "answer-9"}), ["answer-1"]), ParseFailure)
    assert isinstance(read_choice(said("the first"), ["answer-1"]), ParseFailure)
    choice = read_choice(said({"winner": " answer-1 ", "reason": "short"}), ["answer-1"])
    assert not isinstance(choice, ParseFailure)
    assert (choice.winner, choice.reason) == ("answer-1", "short")


def test_a_proposal_stands_in_a_reply_beside_its_text() -> None:
    text = 'It is done.\n```json\n{"plan_change": {"remove": ["b"], "reason": "not needed"}}\n```'
    assert proposal_in(said(text)) == ChangeDraft(remove=("b",), reason="not needed")
    assert proposal_in(said("I would not make a plan_change now.")) is None
    assert isinstance(proposal_in(said({"plan_change": {"put": 3}})), ParseFailure)


def test_a_form_is_read_with_fields_that_models_add() -> None:
    found = read_form(said({"put": [{"id": "p", "mood": "good"}], "thoughts": "…"}), ChangeDraft)
    assert found == ChangeDraft(put=(PhaseDraft(id="p"),))
