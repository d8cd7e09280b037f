"""A plan prepared for the topology that suits it: evaluates the topologies, and schedules the plan for the chosen one.

Deterministic, and starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import JsonValue

from teamwright.lab.topology.decision import Decision
from teamwright.lab.topology.model import (
    EvaluationSettings,
    Recommendation,
    Score,
    TopologyReport,
    evaluate,
    planner_settings,
)
from teamwright.lab.topology.profiles import TOPOLOGIES, TopologyProfiles
from teamwright.lab.topology.work import average_tokens
from teamwright.strategies.plan.prepared_plan import UNNAMED, Prepared, prepare
from teamwright.strategies.plan.schedule.envelopes import USUAL
from teamwright.strategies.plan.schedule.planner import USUAL as PLANNED
from teamwright.strategies.plan.schedule.planner import PlannerSettings
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.envelope import EnvelopeLimits


@dataclass(frozen=True, slots=True)
class Bundle:
    """A prepared plan, and the evaluation of topologies that determined its settings.

    With a `decision`, the evaluation's recommendation is what was decided.
    """

    evaluation: TopologyReport
    prepared: Prepared
    decision: Decision | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """Return it as JSON."""
        return {
            **self.prepared.to_json(),
            "evaluation": self.evaluation.to_json(),
            "planner_settings": self.prepared.settings.model_dump(mode="json"),
            **({} if self.decision is None else {"decision": self.decision.to_json()}),
        }


def orchestrate(
    plan: Plan,
    settings: EvaluationSettings | None = None,
    *,
    planner: PlannerSettings = PLANNED,
    profiles: TopologyProfiles = TOPOLOGIES,
    run_id: str = UNNAMED,
    policy: EnvelopeLimits = USUAL,
    decision: Decision | None = None,
) -> Bundle:
    """Choose the topology for a plan, unless it was decided, and prepare the plan for it.

    By default the topologies are evaluated for as many tasks as the plan has steps, of their average size. Fields that
    are set in `planner` take precedence over those derived from the topology. `profiles` are the figures of the
    topologies.
    """
    evaluation = evaluate(settings or settings_for(plan), profiles)
    if decision is not None:
        evaluation = replace(evaluation, recommendation=_recommendation(decision, evaluation.settings))
    derived = planner_settings(evaluation.chosen, plan, evaluation.settings.budget)
    chosen = derived.model_copy(update=planner.model_dump(exclude_unset=True))
    return Bundle(evaluation, prepare(plan, chosen, run_id=run_id, policy=policy), decision)


def _recommendation(decision: Decision, settings: EvaluationSettings) -> Recommendation:
    within = [one for one in decision.shapes if one.within_gates]
    return Recommendation(
        preference=settings.recommendation,
        topology=decision.topology,
        pool="passing" if within else "all",
        scores=tuple(
            Score(topology=one.topology, score=one.score, passed=one.within_gates) for one in within or decision.shapes
        ),
    )


def settings_for(plan: Plan, usual_tokens: int | None = None) -> EvaluationSettings:
    """Return the default settings with the number and average size of a plan's steps.

    `usual_tokens` is the size of a step if the plan estimates none.
    """
    tokens = average_tokens(plan) or usual_tokens
    usual = EvaluationSettings(tasks=len(plan.steps))
    return usual.model_copy(update={"average_tokens": tokens}) if tokens else usual
