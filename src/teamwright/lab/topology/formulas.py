"""The formulas of the topology model, for numbers and for arrays of numbers.

The operations that differ between the two (truncation, rounding, minimum) are passed in as an `Arithmetic`; profiles
may hold arrays in place of numbers. The order of operations is part of the model: another order changes last digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from teamwright.lab.topology.profiles import (
    BudgetProfile,
    DegradationProfile,
    ProtocolProfile,
    TopologyProfile,
    Weights,
    WorkloadProfile,
)

Quantity = Any
"""A number, or an array of numbers."""

SECONDS_PER_DAY = 86_400
RATE_DIGITS, TIME_DIGITS, SCORE_DIGITS = 4, 2, 5
LEAST_TIME = 0.01
"""The smallest positive rounded time."""
SUMMARY_SHARE, LEAST_SUMMARY, LEAST_SCALED_SUMMARY = 0.08, 24, 16
DISCOUNT_PER_COMPACTION, MOST_DISCOUNT = 0.10, 0.35
MOST_CACHED, BEST_PASS_RATE = 0.30, 0.99


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The operations on quantities that are not operators; the second argument of `rounded` is the decimals."""

    whole: Callable[[Quantity], Quantity]
    nearest: Callable[[Quantity], Quantity]
    rounded: Callable[[Quantity, int], Quantity]
    lesser: Callable[[Quantity, Quantity], Quantity]
    greater: Callable[[Quantity, Quantity], Quantity]


PLAIN = Arithmetic(whole=int, nearest=round, rounded=round, lesser=min, greater=max)


@dataclass(frozen=True, slots=True)
class TopologyInput:
    """The work to evaluate, and its budget, workload and protocol."""

    tasks: Quantity
    average_tokens: Quantity
    rounds: Quantity
    budget: BudgetProfile
    workload: WorkloadProfile
    protocol: ProtocolProfile


@dataclass(frozen=True, slots=True)
class Figures:
    """The model's figures for a topology, rounded as reported."""

    parallelism: Quantity
    messages: Quantity
    execution_tokens: Quantity
    coordination_tokens: Quantity
    cache_savings: Quantity
    total_tokens: Quantity
    coordination_ratio: Quantity
    pass_rate: Quantity
    defect_escape: Quantity
    p95_latency_s: Quantity
    throughput: Quantity
    budget_limit: Quantity
    budget_headroom: Quantity


@dataclass(frozen=True, slots=True)
class TopologyBounds:
    """The bounds on the figures, besides the budget."""

    coordination_ratio: float
    pass_rate: float
    p95_latency_s: float


@dataclass(frozen=True, slots=True)
class BoundResults:
    """Which bounds the figures satisfy."""

    coordination_ratio: Quantity
    pass_rate: Quantity
    p95_latency_s: Quantity
    budget: Quantity


def figures(
    topology: TopologyProfile,
    participants: Quantity,
    work: TopologyInput,
    cutback: DegradationProfile,
    use: Arithmetic = PLAIN,
) -> Figures:
    """Compute the figures of a topology with this many participants and this cutback."""
    budget, workload, protocol = work.budget, work.workload, work.protocol
    workers = use.greater(1, participants - 1)
    messages = use.nearest(_base_messages(topology, workers, work.rounds, use) * workload.sync * topology.messages)
    execution = use.whole(work.tasks * work.average_tokens * topology.execution * workload.execution)
    coordination = _coordination(messages, topology, work, cutback, use)
    savings = use.whole(execution * _clamped(topology.cache + protocol.cache_bonus, MOST_CACHED, use))
    total = use.greater(1, execution + coordination - savings)
    limit = work.tasks * work.average_tokens + work.tasks * budget.message_budget
    quality = topology.pass_rate + budget.quality + workload.quality + protocol.quality + cutback.quality
    passes = _clamped(quality, BEST_PASS_RATE, use)
    working = work.tasks / workers * topology.seconds_per_task * workload.latency
    p95 = use.rounded(working + messages * (topology.seconds_per_message + protocol.latency), TIME_DIGITS)
    return Figures(
        parallelism=workers,
        messages=messages,
        execution_tokens=execution,
        coordination_tokens=coordination,
        cache_savings=savings,
        total_tokens=total,
        coordination_ratio=use.rounded(coordination / total, RATE_DIGITS),
        pass_rate=use.rounded(passes, RATE_DIGITS),
        defect_escape=use.rounded(1 - passes, RATE_DIGITS),
        p95_latency_s=p95,
        throughput=use.rounded(work.tasks / use.greater(1, p95) * SECONDS_PER_DAY, TIME_DIGITS),
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
    pass_rate: Quantity,
    total_tokens: Quantity,
    p95_latency_s: Quantity,
    *,
    most_tokens: Quantity,
    slowest: Quantity,
    use: Arithmetic = PLAIN,
) -> Quantity:
    """Score a topology relative to the most tokens and the longest time of all topologies.

    If nothing takes any time, all are equally fast.
    """
    return use.rounded(
        weights.quality * pass_rate
        + weights.cost * (1 - total_tokens / use.greater(1, most_tokens))
        + weights.latency * (1 - p95_latency_s / use.greater(LEAST_TIME, slowest)),
        SCORE_DIGITS,
    )


def _base_messages(topology: TopologyProfile, workers: Quantity, rounds: Quantity, use: Arithmetic) -> Quantity:
    """The number of messages before the workload's factor: of each worker with the lead, and among workers."""
    among = workers * use.greater(0, workers - 1)
    return topology.worker_messages * workers * rounds + topology.peer_messages * among * rounds


def _coordination(
    messages: Quantity, topology: TopologyProfile, work: TopologyInput, cutback: DegradationProfile, use: Arithmetic
) -> Quantity:
    """The tokens of all messages, after compaction and with pointers in place of content."""
    uncapped = use.greater(LEAST_SUMMARY, use.whole(work.average_tokens * SUMMARY_SHARE))
    capped = use.lesser(work.budget.summary_cap, uncapped)
    summary = use.whole(capped * work.workload.summary * work.protocol.summary * topology.summary)
    summary = use.greater(LEAST_SCALED_SUMMARY, use.whole(summary * cutback.summary_scale))
    compactions = work.rounds // work.budget.compaction_interval
    discount = use.lesser(MOST_DISCOUNT, DISCOUNT_PER_COMPACTION * compactions)
    return use.whole(use.whole(messages * summary * (1 - discount)) * (1 - work.protocol.artifact_discount))


def _clamped(value: Quantity, most: float, use: Arithmetic) -> Quantity:
    return use.lesser(most, use.greater(0.0, value))
