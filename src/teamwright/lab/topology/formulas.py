"""The formulas of the topology model.

The order of operations is part of the model: another order changes last digits.
"""

from __future__ import annotations

from dataclasses import dataclass

from teamwright.lab.topology.profiles import (
    BudgetProfile,
    DegradationProfile,
    ProtocolProfile,
    TopologyProfile,
    Weights,
    WorkloadProfile,
)

SECONDS_PER_DAY = 86_400
RATE_DIGITS, TIME_DIGITS, SCORE_DIGITS = 4, 2, 5
LEAST_TIME = 0.01
"""The smallest positive rounded time."""
SUMMARY_SHARE, LEAST_SUMMARY, LEAST_SCALED_SUMMARY = 0.08, 24, 16
DISCOUNT_PER_COMPACTION, MOST_DISCOUNT = 0.10, 0.35
MOST_CACHED, BEST_PASS_RATE = 0.30, 0.99


@dataclass(frozen=True, slots=True)
class TopologyInput:
    """The work to evaluate, and its budget, workload and protocol."""

    tasks: int
    average_tokens: int
    rounds: int
    budget: BudgetProfile
    workload: WorkloadProfile
    protocol: ProtocolProfile


@dataclass(frozen=True, slots=True)
class Figures:
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


@dataclass(frozen=True, slots=True)
class TopologyBounds:
    """The bounds on the figures, besides the budget."""

    coordination_ratio: float
    pass_rate: float
    p95_latency_s: float


@dataclass(frozen=True, slots=True)
class BoundResults:
    """Which bounds the figures satisfy."""

    coordination_ratio: bool
    pass_rate: bool
    p95_latency_s: bool
    budget: bool


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


def check_bounds(found: Figures, bounds: TopologyBounds) -> BoundResults:
    """Compare the rounded figures with their bounds, which are inclusive."""
    return BoundResults(
        coordination_ratio=found.coordination_ratio <= bounds.coordination_ratio,
        pass_rate=found.pass_rate >= bounds.pass_rate,
        p95_latency_s=found.p95_latency_s <= bounds.p95_latency_s,
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
