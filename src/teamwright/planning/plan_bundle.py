"""Computes everything about a plan before it runs: topology, settings, schedule, diagnostics and handoffs.

Deterministic, and starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from teamwright.errors import PlanError
from teamwright.planning.schedule.diagnostics import Diagnostics, diagnose
from teamwright.planning.schedule.handoffs import USUAL, batch_handoffs, handoff_tokens
from teamwright.planning.schedule.planner import USUAL as PLANNED
from teamwright.planning.schedule.planner import PlannerSettings, make_schedule
from teamwright.planning.schedule.schedule import Schedule, validate_schedule
from teamwright.planning.topology.model import EvaluationSettings, TopologyReport, evaluate, planner_settings
from teamwright.planning.topology.profiles import TOPOLOGIES, TopologyProfiles
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.envelope import Envelope, EnvelopeLimits

UNNAMED = "plan"
"""The run id in envelopes before a run exists."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A schedule with its diagnostics, the envelopes for workers, and their approximate size in tokens."""

    settings: PlannerSettings
    schedule: Schedule
    diagnostics: Diagnostics
    handoffs: tuple[Envelope, ...]
    handoff_tokens: int

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON, without the settings, which the caller knows."""
        return {
            **self.schedule.to_json(),
            "diagnostics": self.diagnostics.to_json(),
            "handoffs": [envelope.model_dump(mode="json") for envelope in self.handoffs],
            "handoff_tokens": self.handoff_tokens,
        }


@dataclass(frozen=True, slots=True)
class Bundle:
    """A prepared plan, and the evaluation of topologies that determined its settings."""

    evaluation: TopologyReport
    prepared: Prepared

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return {
            **self.prepared.to_json(),
            "evaluation": self.evaluation.to_json(),
            "planner_settings": self.prepared.settings.model_dump(mode="json"),
        }


def prepare(
    plan: Plan, settings: PlannerSettings = PLANNED, *, run_id: str = UNNAMED, policy: EnvelopeLimits = USUAL
) -> Prepared:
    """Schedule a plan and validate the schedule; compute its diagnostics and its handoffs."""
    schedule = make_schedule(plan, settings)
    if problems := validate_schedule(schedule, plan):
        raise PlanError(problems)
    handoffs = batch_handoffs(run_id, schedule, plan, policy)
    return Prepared(settings, schedule, diagnose(schedule, plan), handoffs, handoff_tokens(handoffs))


def orchestrate(
    plan: Plan,
    settings: EvaluationSettings | None = None,
    *,
    planner: PlannerSettings = PLANNED,
    profiles: TopologyProfiles = TOPOLOGIES,
    run_id: str = UNNAMED,
    policy: EnvelopeLimits = USUAL,
) -> Bundle:
    """Choose the topology for a plan and prepare the plan for it.

    By default the topologies are evaluated for as many tasks as the plan has steps, of their average size. Fields that
    are set in `planner` take precedence over those derived from the topology. `profiles` are the figures of the
    topologies.
    """
    evaluation = evaluate(settings or settings_for(plan), profiles)
    derived = planner_settings(evaluation.chosen, plan, evaluation.settings.budget)
    chosen = derived.model_copy(update=planner.model_dump(exclude_unset=True))
    return Bundle(evaluation, prepare(plan, chosen, run_id=run_id, policy=policy))


def settings_for(plan: Plan) -> EvaluationSettings:
    """Return the default settings with the number and average size of a plan's steps, if they have estimates."""
    usual = EvaluationSettings(tasks=len(plan.steps))
    tokens = sum(step.execution_tokens for step in plan.steps) // len(plan.steps)
    return usual.model_copy(update={"average_tokens": tokens}) if tokens else usual
