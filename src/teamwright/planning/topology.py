"""The analytic model of team topologies: what each would cost, how good and how fast it would be, and which to take.

Pure arithmetic. Amounts of tokens are cut to whole ones, counts of messages rounded, and gates look at the rounded
figures, so that everybody who computes them comes to the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from teamwright.planning.planner import PlannerSettings
from teamwright.planning.profiles import (
    ALIASES,
    BUDGETS,
    DEGRADATIONS,
    PREFERENCES,
    PROTOCOLS,
    TOPOLOGIES,
    WORKLOADS,
    BudgetLevel,
    Cutback,
    Degradation,
    ModelTier,
    Preference,
    Protocol,
    Topology,
    Workload,
)
from teamwright.values.frozen import Record, Value
from teamwright.values.plan import Plan

MOST_PARTICIPANTS = 5
SECONDS_PER_TASK, SECONDS_PER_MESSAGE, SECONDS_PER_DAY = 6.0, 0.02, 86_400

TopologyName = Annotated[Topology, BeforeValidator(lambda name: ALIASES.get(name, name))]


class Gates(Value):
    """What a topology has to keep to, beside the budget."""

    max_coordination_ratio: float = Field(default=0.20, description="coordination tokens over all tokens")
    min_pass_rate: float = Field(default=0.80, description="share of the tasks that pass")
    max_p95_latency_s: float = Field(default=180.0, description="seconds")


class EvaluationSettings(Value):
    """The work that topologies are evaluated for."""

    tasks: int = Field(default=24, ge=1, description="how many tasks")
    average_tokens: int = Field(default=1400, ge=0, description="execution tokens of a task")
    rounds: int = Field(default=4, ge=0, description="rounds of coordination")
    budget: BudgetLevel = "medium"
    workload: Workload = "mixed"
    protocol: Protocol = "a2a_lite"
    degradation: Degradation = "none"
    recommendation: Preference = "balanced"
    gates: Gates = Gates()
    topologies: tuple[TopologyName, ...] = Field(default=tuple(TOPOLOGIES), min_length=1)


class GateResults(Record, frozen=True):
    """Which gates are passed."""

    coordination_ratio: bool
    pass_rate: bool
    p95_latency_s: bool
    budget: bool

    @property
    def passed(self) -> bool:
        """All of them."""
        return self.coordination_ratio and self.pass_rate and self.p95_latency_s and self.budget


class Evaluation(Record, frozen=True):
    """What the model says of one topology; `actions` is how it was degraded, if it was."""

    topology: Topology
    participants: int
    parallelism: int
    model_tier: ModelTier
    messages: int
    execution_tokens: int
    coordination_tokens: int
    cache_savings: int
    total_tokens: int
    coordination_ratio: float
    pass_rate: float
    defect_escape: float
    p95_latency_s: float
    throughput: float
    budget_limit: int
    budget_headroom: int
    gates: GateResults
    passed: bool
    actions: tuple[str, ...] = ()


class Score(Record, frozen=True):
    """How one topology does by a preference."""

    topology: Topology
    score: float
    passed: bool


class Recommendation(Record, frozen=True):
    """Which topology to take, out of those that pass their gates, or out of all where none does."""

    preference: Preference
    topology: Topology
    pool: Literal["passing", "all"]
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """The evaluation of several topologies for the same work."""

    settings: EvaluationSettings
    evaluations: tuple[Evaluation, ...]
    recommendation: Recommendation

    @property
    def chosen(self) -> Evaluation:
        """The evaluation of the topology that is recommended."""
        return next(one for one in self.evaluations if one.topology == self.recommendation.topology)

    def to_json(self) -> dict[str, JsonValue]:
        """As data."""
        return {
            "settings": self.settings.model_dump(mode="json"),
            "evaluations": [one.to_json() for one in self.evaluations],
            "recommendation": self.recommendation.to_json(),
        }


def evaluate(settings: EvaluationSettings) -> TopologyReport:
    """Evaluate every topology that the settings name, and recommend one."""
    evaluations = tuple(evaluate_topology(topology, settings) for topology in dict.fromkeys(settings.topologies))
    return TopologyReport(settings, evaluations, recommend(evaluations, settings.recommendation))


def evaluate_topology(topology: Topology, settings: EvaluationSettings) -> Evaluation:
    """The figures of one topology, degraded once where its ratio or its budget asks for it and the policy allows it.

    A degraded one may still fail its gates, which is told as it is.
    """
    own = TOPOLOGIES[topology].participants
    participants = min(MOST_PARTICIPANTS, BUDGETS[settings.budget].max_workers) if own is None else own
    found = _evaluated(topology, participants, settings, DEGRADATIONS["none"])
    pressed = not (found.gates.coordination_ratio and found.gates.budget)
    if settings.degradation == "none" or topology == "single" or not pressed:
        return found
    cutback = DEGRADATIONS[settings.degradation]
    fewer = max(2, participants - cutback.participants)
    actions = (
        f"reduce_participants:{participants}->{fewer}",
        f"tighten_summary_scale:{cutback.summary_scale:g}",
        f"switch_model_tier:{cutback.model_tier}",
    )
    return _evaluated(topology, fewer, settings, cutback).changed(actions=actions)


def recommend(evaluations: Sequence[Evaluation], preference: Preference) -> Recommendation:
    """The topology with the best score; of equal ones the first."""
    passing = [one for one in evaluations if one.passed]
    pool = passing or evaluations
    weights = PREFERENCES[preference]
    most_tokens = max(one.total_tokens for one in pool)
    slowest = max(one.p95_latency_s for one in pool)
    scores = [
        Score(
            topology=one.topology,
            score=round(
                weights.quality * one.pass_rate
                + weights.cost * (1 - one.total_tokens / most_tokens)
                + weights.latency * (1 - one.p95_latency_s / slowest),
                5,
            ),
            passed=one.passed,
        )
        for one in pool
    ]
    scores.sort(key=lambda score: -score.score)
    return Recommendation(
        preference=preference,
        topology=scores[0].topology,
        pool="passing" if passing else "all",
        scores=tuple(scores),
    )


def planner_settings(chosen: Evaluation, plan: Plan, budget: BudgetLevel) -> PlannerSettings:
    """What a plan's schedule has to keep to when it is worked through in this topology."""
    tasks, message_budget = len(plan.steps), BUDGETS[budget].message_budget
    return PlannerSettings(
        max_parallel=min(chosen.parallelism, tasks),
        run_budget=sum(step.execution_tokens for step in plan.steps) + tasks * message_budget,
        coordination_floor=max(4, message_budget // 2),
    )


def _evaluated(topology: Topology, participants: int, settings: EvaluationSettings, cutback: Cutback) -> Evaluation:
    budget, workload = BUDGETS[settings.budget], WORKLOADS[settings.workload]
    profile, protocol = TOPOLOGIES[topology], PROTOCOLS[settings.protocol]
    parallelism = 1 if topology == "single" else max(1, participants - 1)
    messages = round(_base_messages(topology, participants, settings.rounds) * workload.sync)
    execution = int(settings.tasks * settings.average_tokens * profile.execution * workload.execution)
    coordination = _coordination(messages, settings, cutback)
    savings = int(execution * _clamped(profile.cache + protocol.cache_bonus, 0.30))
    total = max(1, execution + coordination - savings)
    limit = settings.tasks * settings.average_tokens + settings.tasks * budget.message_budget
    ratio = round(coordination / total, 4)
    passes = _clamped(profile.pass_rate + budget.quality + workload.quality + protocol.quality + cutback.quality, 0.99)
    working = settings.tasks / parallelism * SECONDS_PER_TASK * workload.latency
    p95 = round(working + messages * (SECONDS_PER_MESSAGE + protocol.latency), 2)
    gates = GateResults(
        coordination_ratio=ratio <= settings.gates.max_coordination_ratio,
        pass_rate=round(passes, 4) >= settings.gates.min_pass_rate,
        p95_latency_s=p95 <= settings.gates.max_p95_latency_s,
        budget=total <= limit,
    )
    return Evaluation(
        topology=topology,
        participants=participants,
        parallelism=parallelism,
        model_tier=cutback.model_tier,
        messages=messages,
        execution_tokens=execution,
        coordination_tokens=coordination,
        cache_savings=savings,
        total_tokens=total,
        coordination_ratio=ratio,
        pass_rate=round(passes, 4),
        defect_escape=round(1 - passes, 4),
        p95_latency_s=p95,
        throughput=round(settings.tasks / max(1, p95) * SECONDS_PER_DAY, 2),
        budget_limit=limit,
        budget_headroom=limit - total,
        gates=gates,
        passed=gates.passed,
    )


def _base_messages(topology: Topology, participants: int, rounds: int) -> int:
    """Messages before the kind of work changes their number."""
    workers = max(1, participants - 1)
    match topology:
        case "single":
            return 0
        case "lead_subagent":
            return 2 * workers * rounds
        case "star_team":
            return 2 * workers * rounds + workers * rounds
        case "mesh_team":
            return 2 * workers * rounds + workers * max(0, workers - 1) * rounds


def _coordination(messages: int, settings: EvaluationSettings, cutback: Cutback) -> int:
    """Tokens of all messages, after compaction and with pointers in place of content."""
    budget, workload, protocol = BUDGETS[settings.budget], WORKLOADS[settings.workload], PROTOCOLS[settings.protocol]
    summary = min(budget.summary_cap, max(24, int(settings.average_tokens * 0.08)))
    summary = int(summary * workload.summary * protocol.summary)
    summary = max(16, int(summary * cutback.summary_scale))
    discount = min(0.35, 0.10 * (settings.rounds // budget.compaction_interval))
    return int(int(messages * summary * (1 - discount)) * (1 - protocol.artifact_discount))


def _clamped(value: float, most: float) -> float:
    return min(most, max(0.0, value))
