"""The parameters of the topology model, as tables by topology, budget, workload, protocol and degradation policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

from teamwright.errors import UnknownName
from teamwright.values.names import SHORT_NAMES, plain_strategy_name
from teamwright.values.turns.messages import SUMMARY_CAPS, BudgetLevel

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
