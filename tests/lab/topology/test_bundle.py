"""From a plan to everything that is known before it is run."""

from __future__ import annotations

import pytest
from hypothesis import given

from teamwright.errors import PlanError
from teamwright.lab.topology.bundle import orchestrate, settings_for
from teamwright.lab.topology.model import EvaluationSettings, evaluate
from teamwright.strategies.plan.prepared_plan import prepare
from teamwright.strategies.plan.schedule.envelopes import envelopes_tokens
from teamwright.strategies.plan.schedule.planner import PlannerSettings
from teamwright.strategies.plan.schedule.schedule import validate_schedule
from teamwright.values.specs.plan import Plan, Step
from tests.strategies.plan.plans import plan, plans

FOUR = Plan(
    steps=(
        Step(id="A", owns=("core",), execution_tokens=1200, coordination_tokens=20),
        Step(id="B", needs=("A",), owns=("module-x",), execution_tokens=1000, coordination_tokens=20),
        Step(id="C", needs=("A",), owns=("module-y",), execution_tokens=900, coordination_tokens=20),
        Step(id="D", needs=("B", "C"), owns=("api",), execution_tokens=800, coordination_tokens=20),
    )
)


def test_a_bundle_holds_the_choice_and_all_that_follows_from_it() -> None:  # Z-09
    bundle = orchestrate(FOUR, EvaluationSettings(), run_id="run-e2e")
    assert bundle.evaluation == evaluate(EvaluationSettings())
    assert bundle.evaluation.chosen.topology == "star_team"
    prepared = bundle.prepared
    assert prepared.settings == PlannerSettings(max_parallel=4, run_budget=3980, coordination_floor=10)
    assert [batch.tasks for batch in prepared.schedule.batches] == [("A",), ("B", "C"), ("D",)]
    assert prepared.diagnostics.critical_path == ("A", "B", "D")
    assert {envelope.run_id for envelope in prepared.envelopes} == {"run-e2e"}
    assert prepared.envelope_tokens == envelopes_tokens(prepared.envelopes)


def test_the_data_of_a_bundle_is_that_of_the_schedule_with_two_parts_more() -> None:  # Z-09
    bundle = orchestrate(FOUR)
    own = ["order", "batches", "budgets", "total_tokens", "diagnostics", "envelopes", "envelope_tokens"]
    assert list(bundle.prepared.to_json()) == own
    assert list(bundle.to_json()) == [*own, "evaluation", "planner_settings"]


def test_without_settings_the_topologies_are_evaluated_for_this_plan() -> None:
    assert (settings_for(FOUR).tasks, settings_for(FOUR).average_tokens) == (4, 975)
    assert settings_for(plan(a="", b="")).average_tokens == EvaluationSettings().average_tokens
    assert orchestrate(FOUR).evaluation == evaluate(settings_for(FOUR))


def test_what_the_caller_sets_stands() -> None:
    narrow = orchestrate(FOUR, planner=PlannerSettings(max_parallel=1)).prepared
    assert narrow.settings.max_parallel == narrow.diagnostics.max_parallelism == 1
    assert narrow.settings.coordination_floor == 10


def test_a_plan_with_faults_is_refused() -> None:
    with pytest.raises(PlanError, match="circle"):
        orchestrate(plan(a="b", b="a"))


@given(plans())
def test_every_plan_can_be_orchestrated_and_always_the_same_way(plan: Plan) -> None:  # Z-09
    bundle = orchestrate(plan)
    assert validate_schedule(bundle.prepared.schedule, plan) == []
    assert bundle.to_json() == orchestrate(plan).to_json()
    assert prepare(plan, bundle.prepared.settings) == bundle.prepared
