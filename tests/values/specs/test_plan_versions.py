"""A collaboration plan is a plan whose steps are phases; it round-trips through JSON."""

from __future__ import annotations

import json

import pytest

from teamwright.errors import InvalidValue
from teamwright.strategies.plan.schedule_maker import make_schedule
from teamwright.values.specs.evaluation import Criterion, Evaluate
from teamwright.values.specs.plan import Part, Pins, Plan, Step

PLAN = Plan(
    steps=(
        Step(id="facts", agent="analyst", task="Collect facts on {{ variables.topic }}."),
        Step(
            id="draft",
            parallel="subtask_parallel",
            needs=("facts",),
            parts=(Part(id="one", agent="writer"), Part(id="two", agent="editor", task="The end.")),
        ),
        Step(
            id="title",
            name="A title",
            parallel="competitive_parallel",
            merge="vote",
            agents=("writer", "editor", "analyst"),
            enough=2,
            needs=("draft",),
            evaluate=Evaluate(criteria=(Criterion(id="short", length={"max": 60}),)),  # pyright: ignore[reportArgumentType]
            status="completed",
        ),
    ),
    variables={"topic": "rain"},
    status="executing",
    version=3,
    pins=Pins(steps={"facts": ("task",)}, variables=("topic",)),
)


def test_a_plan_round_trips_through_json() -> None:
    text = json.dumps(PLAN.to_json())
    assert Plan.model_validate(json.loads(text)) == PLAN
    assert Plan.model_validate_json(text).to_json() == PLAN.to_json()


def test_it_is_the_plan_that_is_scheduled_everywhere_else() -> None:
    assert isinstance(PLAN, Plan)
    assert make_schedule(PLAN).order == ("facts", "draft", "title")


def test_defaults_are_a_serial_phase_that_is_pending_and_a_plan_that_is_a_draft() -> None:
    plan = Plan(steps=(Step(id="a"),))
    assert (plan.status, plan.version, plan.steps[0].parallel, plan.steps[0].merge) == ("draft", 1, "serial", "best")
    assert plan.steps[0].status == "pending"
    assert plan.to_json() == {"steps": [{"id": "a"}]}


@pytest.mark.parametrize(
    ("phase", "experts"),
    [(0, ("analyst",)), (1, ("writer", "editor")), (2, ("writer", "editor", "analyst"))],
)
def test_the_experts_of_a_phase_are_those_that_it_names(phase: int, experts: tuple[str, ...]) -> None:
    assert PLAN.steps[phase].experts == experts


def test_a_status_is_kept_without_a_new_version() -> None:
    after = PLAN.with_status("facts", "in_progress")
    assert (after.by_id["facts"].status, after.version) == ("in_progress", 3)
    assert PLAN.by_id["facts"].status == "pending"


def test_an_unknown_way_to_work_is_refused_in_words() -> None:
    with pytest.raises(InvalidValue, match="parallel"):
        Step(id="a", parallel="race")  # pyright: ignore[reportArgumentType]
