"""Changes of a plan: what is done stays done, what a person edited is pinned, and those affected are named."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.strategies.plan.plan_change import (
    PlanChange,
    affected_experts,
    apply_change,
    change_between,
    change_problems,
    pin_conflicts,
    plan_difference,
    route_change,
)
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.plan import Plan, Roster, Step

TEAM = Roster(("lead", "a", "b", "c", "d"), "lead")
PLAN = Plan(
    steps=(Step(id="a", status="completed"), Step(id="b", needs=("a",)), Step(id="c", needs=("b",)), Step(id="d"))
)


SHELL = Evaluate(criteria=(Criterion(id="x", command=("sh", "-c", "true")),))


def problems(change: PlanChange, plan: Plan = PLAN) -> list[str]:
    return change_problems(plan, change, TEAM)


def test_a_change_adds_replaces_and_removes_and_is_numbered() -> None:
    change = PlanChange(put=(Step(id="b", task="New."), Step(id="e", agent="a")), remove=("d",), variables={"n": 1})
    assert problems(change) == []
    after = apply_change(PLAN, change)
    assert [phase.id for phase in after.steps] == ["a", "b", "c", "e"]
    assert (after.version, after.variables, after.by_id["b"].task) == (2, {"n": 1}, "New.")
    assert after.by_id["a"].status == "completed"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (PlanChange(), "changes nothing"),
        (PlanChange(put=(Step(id="a", task="Again."),)), "'a' is completed; what is done stays done"),
        (PlanChange(remove=("a",)), "what is done stays done"),
        (PlanChange(remove=("bb",)), "no step 'bb'"),
        (PlanChange(put=(Step(id="b"), Step(id="b"))), "twice"),
        (PlanChange(put=(Step(id="b"),), remove=("b",)), "twice"),
        (PlanChange(remove=("b",)), "needs 'b'"),
        (PlanChange(put=(Step(id="b", needs=("c",)),)), "in a circle"),
        (PlanChange(put=(Step(id="e", agent="z"),)), "not of the team"),
        (PlanChange(put=(Step(id="d", status="completed"),)), "a run keeps the status"),
        (PlanChange(put=(Step(id="d", evaluate=SHELL),)), "would run 'sh -c true', and a manifest alone names code"),
    ],
)
def test_a_change_that_can_not_be_made_says_why(change: PlanChange, text: str) -> None:
    found = problems(change)
    assert any(text in one for one in found), found


def test_every_reason_is_given_at_once() -> None:
    assert len(problems(PlanChange(put=(Step(id="a"),), remove=("x", "y")))) == 3


def test_a_change_that_leaves_no_phase_is_refused() -> None:
    assert problems(PlanChange(remove=("a",)), Plan(steps=(Step(id="a"),))) == ["the change leaves no step"]


def test_those_of_changed_phases_and_of_phases_that_need_them_are_affected() -> None:
    after = apply_change(PLAN, PlanChange(put=(Step(id="b", needs=("a",), agent="d"),)))
    assert affected_experts(PLAN, after, TEAM) == ("d", "b", "c")
    variables = apply_change(PLAN, PlanChange(variables={"n": 1}))
    assert affected_experts(PLAN, variables, TEAM) == ("b", "c", "d")


def test_what_a_person_edited_is_pinned_field_by_field() -> None:
    edited = apply_change(PLAN, PlanChange(put=(Step(id="b", needs=("a",), task="Mine."),)), by_person=True)
    assert edited.pins.steps == {"b": ("task",)}
    other_field = PlanChange(put=(Step(id="b", task="Mine.", agent="c"),))
    assert pin_conflicts(edited, other_field) == []
    assert route_change(edited, other_field, "lead") == "apply"
    overwrites = PlanChange(put=(Step(id="b", task="Yours."),))
    assert pin_conflicts(edited, overwrites) == ["a person set task of the step 'b'"]
    assert route_change(edited, overwrites, "lead") == "ask_person"
    assert route_change(edited, overwrites, "person") == "apply"


def test_a_phase_that_a_person_removed_does_not_come_back_by_itself() -> None:
    edited = apply_change(PLAN, PlanChange(remove=("d",), variables={"n": 1}), by_person=True)
    assert pin_conflicts(edited, PlanChange(put=(Step(id="d"),), variables={"n": 2})) == [
        "a person removed the step 'd'",
        "a person set the variable 'n'",
    ]


def test_a_phase_that_a_person_added_is_not_removed_by_a_planner() -> None:
    edited = apply_change(PLAN, PlanChange(put=(Step(id="e", agent="a"),)), by_person=True)
    assert route_change(edited, PlanChange(remove=("e",)), "lead") == "ask_person"


def test_the_lead_and_a_person_change_at_once_and_experts_propose() -> None:
    change = PlanChange(remove=("d",))
    assert [route_change(PLAN, change, author) for author in ("person", "lead", "expert")] == [
        "apply",
        "apply",
        "ask_lead",
    ]


PHASES = st.lists(st.sampled_from("abcdef"), min_size=1, unique=True).flatmap(
    lambda ids: st.tuples(
        *(st.builds(Step, id=st.just(one), task=st.none() | st.sampled_from(("x", "y"))) for one in ids)
    )
)
PLANS = st.builds(Plan, steps=PHASES, variables=st.dictionaries(st.sampled_from("mn"), st.integers(0, 2), max_size=2))


@given(PLANS, PLANS)
def test_the_change_between_two_plans_leads_from_one_to_the_other(before: Plan, after: Plan) -> None:
    change = change_between(before, after)
    made = apply_change(before, change, by_person=True)
    assert not plan_difference(made, after)
    back = change_between(made, before)
    assert bool(pin_conflicts(made, back)) == bool(plan_difference(before, after))
