"""The analytic model of team topologies: estimates the cost, quality and latency of each, and recommends one.

Its parameters are tables by topology, budget, workload, protocol and degradation policy.

Pure arithmetic. The order of operations is part of the model: another order changes last digits. Tokens are truncated
to integers, message counts are rounded, and gates compare the rounded figures, so that every implementation gets the
same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

from msgspec.structs import asdict
from pydantic import BeforeValidator, Field, JsonValue

from teamwright.errors import UnknownName
from teamwright.strategies.plan.schedule_maker import PlannerSettings
from teamwright.values.names import SHORT_NAMES, plain_strategy_name
from teamwright.values.specs.plan import Plan
from teamwright.values.turns.messages import SUMMARY_CAPS, BudgetLevel
from teamwright.values.value import Record, Value

Topology = Literal["single", "lead_subagent", "star_team", "mesh_team"]
Workload = Literal["implementation", "debugging", "research", "mixed"]
Protocol = Literal["a2a_lite", "transcript"]
Degradation = Literal["none", "auto", "aggressive"]
Preference = Literal["balanced", "cost", "quality"]
ModelTier = Literal["primary", "economy"]

TOPOLOGY_NAMES: tuple[Topology, ...] = get_args(Topology)


def plain_topology(name: object) -> object:
    """Normalize a topology's name, short or written with `-`; return any other value unchanged."""
    plain = plain_strategy_name(name) if isinstance(name, str) else name
    return plain if plain in TOPOLOGY_NAMES else name


def topology_named(name: str) -> Topology:
    """Return the topology with this name or short name; raises `UnknownName`."""
    found = plain_topology(name)
    if found not in TOPOLOGY_NAMES:
        raise UnknownName("topology", name, [*TOPOLOGY_NAMES, *SHORT_NAMES])
    return found


class TopologyProfile(NamedTuple):
    """The parameters of a topology; `participants=None` means as many as the budget's workers, at most five.

    In a round each worker exchanges `worker_messages` with its lead and `peer_messages` with each other worker.
    `messages` and `summary` are factors on the model's number of messages and tokens per message. A calibration with
    your own runs may replace any of these numbers.
    """

    participants: int | None
    execution: float
    pass_rate: float
    cache: float
    worker_messages: int
    peer_messages: int
    messages: float = 1.0
    summary: float = 1.0
    seconds_per_task: float = 6.0
    seconds_per_message: float = 0.02


TopologyProfiles = Mapping[Topology, TopologyProfile]
"""The parameters of every topology: built in, or from a calibration."""


class BudgetProfile(NamedTuple):
    """The parameters of a budget level: tokens of a summary and of messages per task, rounds between compactions."""

    summary_cap: int
    max_workers: int
    compaction_interval: int
    message_budget: int
    quality: float


class WorkloadProfile(NamedTuple):
    """The factors by which a kind of work changes the figures."""

    execution: float
    sync: float
    summary: float
    latency: float
    quality: float


class ProtocolProfile(NamedTuple):
    """The costs and benefits of a protocol between members; its latency is in seconds per message."""

    summary: float
    artifact_discount: float
    latency: float
    cache_bonus: float
    quality: float


class DegradationProfile(NamedTuple):
    """What a degradation setting cuts back in the model."""

    participants: int
    summary_scale: float
    quality: float
    model_tier: ModelTier


class Weights(NamedTuple):
    """The weights of a recommendation's criteria."""

    quality: float
    cost: float
    latency: float


TOPOLOGIES: TopologyProfiles = {
    "single": TopologyProfile(1, 1.00, 0.78, 0.05, 0, 0),
    "lead_subagent": TopologyProfile(2, 0.95, 0.84, 0.08, 2, 0),
    "star_team": TopologyProfile(None, 0.92, 0.88, 0.10, 3, 0),
    "mesh_team": TopologyProfile(None, 0.97, 0.82, 0.10, 2, 1),
}
BUDGETS: Mapping[BudgetLevel, BudgetProfile] = {
    "low": BudgetProfile(SUMMARY_CAPS["low"], 3, 3, 10, -0.03),
    "medium": BudgetProfile(SUMMARY_CAPS["medium"], 5, 5, 20, 0.0),
    "high": BudgetProfile(SUMMARY_CAPS["high"], 8, 8, 32, 0.02),
}
WORKLOADS: Mapping[Workload, WorkloadProfile] = {
    "implementation": WorkloadProfile(1.00, 1.00, 1.00, 1.00, 0.0),
    "debugging": WorkloadProfile(1.12, 1.25, 1.12, 1.18, -0.02),
    "research": WorkloadProfile(0.95, 0.90, 0.95, 0.92, 0.01),
    "mixed": WorkloadProfile(1.03, 1.08, 1.05, 1.06, 0.0),
}
PROTOCOLS: Mapping[Protocol, ProtocolProfile] = {
    "a2a_lite": ProtocolProfile(1.00, 0.18, 0.0, 0.02, 0.01),
    "transcript": ProtocolProfile(2.20, 0.0, 0.012, -0.01, -0.02),
}
DEGRADATIONS: Mapping[Degradation, DegradationProfile] = {
    "none": DegradationProfile(0, 1.0, 0.0, "primary"),
    "auto": DegradationProfile(1, 0.82, -0.01, "economy"),
    "aggressive": DegradationProfile(2, 0.65, -0.03, "economy"),
}
PREFERENCES: Mapping[Preference, Weights] = {
    "balanced": Weights(0.45, 0.35, 0.20),
    "cost": Weights(0.25, 0.55, 0.20),
    "quality": Weights(0.65, 0.20, 0.15),
}


SECONDS_PER_DAY = 86_400
RATE_DIGITS, TIME_DIGITS, SCORE_DIGITS = 4, 2, 5
LEAST_TIME = 0.01
"""The smallest positive rounded time."""
SUMMARY_SHARE, LEAST_SUMMARY, LEAST_SCALED_SUMMARY = 0.08, 24, 16
DISCOUNT_PER_COMPACTION, MOST_DISCOUNT = 0.10, 0.35
MOST_CACHED, BEST_PASS_RATE = 0.30, 0.99
MOST_PARTICIPANTS, LEAST_PARTICIPANTS = 5, 2
MOST_TASKS, MOST_TOKENS, MOST_ROUNDS = 10_000_000, 100_000_000, 1_000_000
TopologyName = Annotated[Topology, BeforeValidator(plain_topology)]


@dataclass(frozen=True, slots=True)
class TopologyInput:
    """The work to evaluate, and its budget, workload and protocol."""

    tasks: int
    average_tokens: int
    rounds: int
    budget: BudgetProfile
    workload: WorkloadProfile
    protocol: ProtocolProfile


class Figures(Record, frozen=True):
    """The model's figures for a topology, rounded as reported."""

    parallelism: int
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


class Gates(Value):
    """The thresholds that a topology must meet, besides the budget."""

    max_coordination_ratio: float = Field(default=0.20, gt=0, lt=1, description="coordination tokens over all tokens")
    min_pass_rate: float = Field(default=0.80, gt=0, lt=1, description="share of the tasks that pass")
    max_p95_latency_s: float = Field(default=180.0, gt=0, allow_inf_nan=False, description="seconds")


class GateResults(Record, frozen=True):
    """The result of each gate."""

    coordination_ratio: bool
    pass_rate: bool
    p95_latency_s: bool
    budget: bool

    @property
    def passed(self) -> bool:
        return self.coordination_ratio and self.pass_rate and self.p95_latency_s and self.budget


def figures(topology: TopologyProfile, participants: int, work: TopologyInput, cutback: DegradationProfile) -> Figures:
    """Compute the figures of a topology with this many participants and this cutback."""
    budget, workload, protocol = work.budget, work.workload, work.protocol
    workers = max(1, participants - 1)
    messages = round(_base_messages(topology, workers, work.rounds) * workload.sync * topology.messages)
    execution = int(work.tasks * work.average_tokens * topology.execution * workload.execution)
    coordination = _coordination(messages, topology, work, cutback)
    savings = int(execution * _clamped(topology.cache + protocol.cache_bonus, MOST_CACHED))
    total = max(1, execution + coordination - savings)
    limit = work.tasks * work.average_tokens + work.tasks * budget.message_budget
    quality = topology.pass_rate + budget.quality + workload.quality + protocol.quality + cutback.quality
    passes = _clamped(quality, BEST_PASS_RATE)
    working = work.tasks / workers * topology.seconds_per_task * workload.latency
    p95 = round(working + messages * (topology.seconds_per_message + protocol.latency), TIME_DIGITS)
    return Figures(
        parallelism=workers,
        messages=messages,
        execution_tokens=execution,
        coordination_tokens=coordination,
        cache_savings=savings,
        total_tokens=total,
        coordination_ratio=round(coordination / total, RATE_DIGITS),
        pass_rate=round(passes, RATE_DIGITS),
        defect_escape=round(1 - passes, RATE_DIGITS),
        p95_latency_s=p95,
        throughput=round(work.tasks / max(1, p95) * SECONDS_PER_DAY, TIME_DIGITS),
        budget_limit=limit,
        budget_headroom=limit - total,
    )


def check_gates(found: Figures, gates: Gates) -> GateResults:
    """Compare the rounded figures with the thresholds, which are inclusive."""
    return GateResults(
        coordination_ratio=found.coordination_ratio <= gates.max_coordination_ratio,
        pass_rate=found.pass_rate >= gates.min_pass_rate,
        p95_latency_s=found.p95_latency_s <= gates.max_p95_latency_s,
        budget=found.total_tokens <= found.budget_limit,
    )


def score(
    weights: Weights,
    pass_rate: float,
    total_tokens: float,
    p95_latency_s: float,
    *,
    most_tokens: float,
    slowest: float,
) -> float:
    """Score a topology relative to the most tokens and the longest time of all topologies.

    If nothing takes any time, all are equally fast.
    """
    return round(
        weights.quality * pass_rate
        + weights.cost * (1 - total_tokens / max(1, most_tokens))
        + weights.latency * (1 - p95_latency_s / max(LEAST_TIME, slowest)),
        SCORE_DIGITS,
    )


def _base_messages(topology: TopologyProfile, workers: int, rounds: int) -> int:
    """The number of messages before the workload's factor: of each worker with the lead, and among workers."""
    among = workers * max(0, workers - 1)
    return topology.worker_messages * workers * rounds + topology.peer_messages * among * rounds


def _coordination(messages: int, topology: TopologyProfile, work: TopologyInput, cutback: DegradationProfile) -> int:
    """The tokens of all messages, after compaction and with pointers in place of content."""
    uncapped = max(LEAST_SUMMARY, int(work.average_tokens * SUMMARY_SHARE))
    capped = min(work.budget.summary_cap, uncapped)
    summary = int(capped * work.workload.summary * work.protocol.summary * topology.summary)
    summary = max(LEAST_SCALED_SUMMARY, int(summary * cutback.summary_scale))
    compactions = work.rounds // work.budget.compaction_interval
    discount = min(MOST_DISCOUNT, DISCOUNT_PER_COMPACTION * compactions)
    return int(int(messages * summary * (1 - discount)) * (1 - work.protocol.artifact_discount))


def _clamped(value: float, most: float) -> float:
    return min(most, max(0.0, value))


class EvaluationSettings(Value):
    """The work for which topologies are evaluated, within bounds that keep every amount exact as a float."""

    tasks: int = Field(default=24, ge=1, le=MOST_TASKS, description="how many tasks")
    average_tokens: int = Field(default=1400, ge=1, le=MOST_TOKENS, description="execution tokens of a task")
    rounds: int = Field(default=4, ge=0, le=MOST_ROUNDS, description="rounds of coordination")
    budget: BudgetLevel = "medium"
    workload: Workload = "mixed"
    protocol: Protocol = "a2a_lite"
    degradation: Degradation = "none"
    recommendation: Preference = "balanced"
    gates: Gates = Gates()
    topologies: tuple[TopologyName, ...] = Field(default=tuple(TOPOLOGIES), min_length=1)


class Evaluation(Figures, frozen=True):
    """The figures of one topology, and its gates; `actions` lists how it was degraded, if it was."""

    topology: Topology
    participants: int
    model_tier: ModelTier
    gates: GateResults
    passed: bool
    actions: tuple[str, ...] = ()


class Score(Record, frozen=True):
    """The score of one topology by a preference."""

    topology: Topology
    score: float
    passed: bool


class Recommendation(Record, frozen=True):
    """The recommended topology among those that pass the gates, or among all if none does."""

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
        return next(one for one in self.evaluations if one.topology == self.recommendation.topology)

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "settings": self.settings.model_dump(mode="json"),
            "evaluations": [one.to_json() for one in self.evaluations],
            "recommendation": self.recommendation.to_json(),
        }


def evaluate(settings: EvaluationSettings, profiles: TopologyProfiles = TOPOLOGIES) -> TopologyReport:
    """Evaluate every topology in the settings with these profiles, and recommend one."""
    topologies = dict.fromkeys(settings.topologies)
    evaluations = tuple(evaluate_topology(topology, settings, profiles) for topology in topologies)
    return TopologyReport(settings, evaluations, recommend(evaluations, settings.recommendation))


def evaluate_topology(
    topology: Topology, settings: EvaluationSettings, profiles: TopologyProfiles = TOPOLOGIES
) -> Evaluation:
    """Evaluate one topology; degrade it once if its ratio or its budget gate fails and the policy allows it.

    A degraded topology may still fail its gates.
    """
    profile = profiles[topology]
    participants = participants_of(profile, BUDGETS[settings.budget])
    found = _evaluate(topology, profile, participants, settings, DEGRADATIONS["none"])
    fits = found.gates.coordination_ratio and found.gates.budget
    if settings.degradation == "none" or topology == "single" or fits:
        return found
    cutback = DEGRADATIONS[settings.degradation]
    fewer = fewer_participants(participants, cutback)
    degraded = _evaluate(topology, profile, fewer, settings, cutback)
    return degraded.changed(actions=actions_of(participants, fewer, cutback))


def participants_of(profile: TopologyProfile, budget: BudgetProfile) -> int:
    """The number of participants before degradation."""
    return min(MOST_PARTICIPANTS, budget.max_workers) if profile.participants is None else profile.participants


def fewer_participants(participants: int, cutback: DegradationProfile) -> int:
    """The number of participants after degradation."""
    return max(LEAST_PARTICIPANTS, participants - cutback.participants)


def actions_of(participants: int, fewer: int, cutback: DegradationProfile) -> tuple[str, ...]:
    """The degradation actions, as recorded in an evaluation."""
    return (
        f"reduce_participants:{participants}->{fewer}",
        f"tighten_summary_scale:{cutback.summary_scale:g}",
        f"switch_model_tier:{cutback.model_tier}",
    )


def recommend(evaluations: Sequence[Evaluation], preference: Preference) -> Recommendation:
    """Recommend the topology with the best score; the first of equal ones."""
    passing = [one for one in evaluations if one.passed]
    pool = passing or evaluations
    weights = PREFERENCES[preference]
    most_tokens = max(one.total_tokens for one in pool)
    slowest = max(one.p95_latency_s for one in pool)
    scores = [
        Score(
            topology=one.topology,
            score=score(
                weights,
                one.pass_rate,
                one.total_tokens,
                one.p95_latency_s,
                most_tokens=most_tokens,
                slowest=slowest,
            ),
            passed=one.passed,
        )
        for one in pool
    ]
    scores.sort(key=lambda one: -one.score)
    return Recommendation(
        preference=preference,
        topology=scores[0].topology,
        pool="passing" if passing else "all",
        scores=tuple(scores),
    )


def planner_settings(chosen: Evaluation, plan: Plan, budget: BudgetLevel) -> PlannerSettings:
    """Derive the planner settings for executing a plan in this topology."""
    tasks, message_budget = len(plan.steps), BUDGETS[budget].message_budget
    return PlannerSettings(
        max_parallel=min(chosen.parallelism, tasks),
        run_budget=sum(step.execution_tokens for step in plan.steps) + tasks * message_budget,
        coordination_floor=max(4, message_budget // 2),
    )


def topology_input(settings: EvaluationSettings) -> TopologyInput:
    """Convert the settings to the input of the formulas."""
    return TopologyInput(
        tasks=settings.tasks,
        average_tokens=settings.average_tokens,
        rounds=settings.rounds,
        budget=BUDGETS[settings.budget],
        workload=WORKLOADS[settings.workload],
        protocol=PROTOCOLS[settings.protocol],
    )


def _evaluate(
    topology: Topology,
    profile: TopologyProfile,
    participants: int,
    settings: EvaluationSettings,
    cutback: DegradationProfile,
) -> Evaluation:
    found = figures(profile, participants, topology_input(settings), cutback)
    gates = check_gates(found, settings.gates)
    return Evaluation(
        **asdict(found),
        topology=topology,
        participants=participants,
        model_tier=cutback.model_tier,
        gates=gates,
        passed=gates.passed,
    )
