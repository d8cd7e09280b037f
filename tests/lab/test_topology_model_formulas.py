"""Every formula of the topology model, worked out by hand, and what holds for all of them."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, strategies as st

from teamwright.lab.topology_model import (
    BUDGETS,
    DEGRADATIONS,
    PREFERENCES,
    PROTOCOLS,
    TOPOLOGIES,
    WORKLOADS,
    BudgetLevel,
    Degradation,
    Figures,
    Gates,
    Protocol,
    Topology,
    TopologyInput,
    Weights,
    Workload,
    check_gates,
    figures,
    score,
)


def work(
    tasks: int = 24,
    tokens: int = 1400,
    rounds: int = 4,
    budget: BudgetLevel = "medium",
    workload: Workload = "implementation",
    protocol: Protocol = "a2a_lite",
) -> TopologyInput:
    return TopologyInput(tasks, tokens, rounds, BUDGETS[budget], WORKLOADS[workload], PROTOCOLS[protocol])


def found(topology: Topology, participants: int, given: TopologyInput, degradation: Degradation = "none") -> Figures:
    return figures(TOPOLOGIES[topology], participants, given, DEGRADATIONS[degradation])


@pytest.mark.parametrize(
    ("topology", "participants", "rounds", "workload", "expected"),
    [
        ("single", 1, 9, "debugging", 0),
        ("lead_subagent", 2, 4, "implementation", 2 * 1 * 4),
        ("star_team", 5, 4, "implementation", 2 * 4 * 4 + 4 * 4),
        ("mesh_team", 5, 4, "implementation", 2 * 4 * 4 + 4 * 3 * 4),
        ("mesh_team", 2, 4, "implementation", 2 * 1 * 4),
        ("star_team", 3, 1, "debugging", 8),  # 6 × 1.25 = 7.5, and half goes to even
        ("lead_subagent", 2, 1, "debugging", 2),  # 2 × 1.25 = 2.5, and half goes to even
        ("lead_subagent", 2, 5, "research", 9),
    ],
)
def test_messages(topology: Topology, participants: int, rounds: int, workload: Workload, expected: int) -> None:
    assert found(topology, participants, work(rounds=rounds, workload=workload)).messages == expected  # Z-14


@pytest.mark.parametrize(
    ("topology", "workload", "expected"),
    [
        ("single", "implementation", 7 * 333),
        ("lead_subagent", "implementation", 2214),  # 2331 × 0.95 = 2214.45
        ("star_team", "debugging", 2401),  # 2331 × 0.92 × 1.12 = 2401.86
        ("mesh_team", "research", 2148),  # 2331 × 0.97 × 0.95 = 2148.02
    ],
)
def test_execution_is_cut_to_whole_tokens(topology: Topology, workload: Workload, expected: int) -> None:  # Z-14
    assert found(topology, 2, work(tasks=7, tokens=333, workload=workload)).execution_tokens == expected


@pytest.mark.parametrize(
    ("given", "degradation", "expected"),
    [
        (work(rounds=1, tokens=1000), "none", 80),  # 1000 × 0.08
        (work(rounds=1, tokens=1512), "none", 120),  # 120.96, cut to the cap
        (work(rounds=1, tokens=5000), "none", 120),  # the cap
        (work(rounds=1, tokens=5000, budget="low"), "none", 80),
        (work(rounds=1, tokens=5000, budget="high"), "none", 180),
        (work(rounds=1, tokens=100), "none", 24),  # at least 24
        (work(rounds=1, tokens=1000, protocol="transcript"), "none", 176),  # 80 × 2.2
        (work(rounds=1, tokens=1000), "auto", 65),  # 80 × 0.82 = 65.6
        (work(rounds=1, tokens=100), "aggressive", 16),  # 24 × 0.65 = 15.6, at least 16
    ],
)
def test_the_size_of_a_summary(given: TopologyInput, degradation: Degradation, expected: int) -> None:  # Z-14
    """A lead and its subagent have two messages in a round; of envelopes 18 % are pointers."""
    shared = expected * 2 if given.protocol is PROTOCOLS["transcript"] else int(expected * 2 * 0.82)
    assert found("lead_subagent", 2, given, degradation).coordination_tokens == shared


@pytest.mark.parametrize(
    ("rounds", "budget", "share"),
    [
        (4, "medium", 1.0),
        (5, "medium", 0.9),
        (9, "medium", 0.9),
        (10, "medium", 0.8),
        (3, "low", 0.9),
        (7, "high", 1.0),
    ],
)
def test_compaction_takes_a_tenth_each_time(rounds: int, budget: BudgetLevel, share: float) -> None:  # Z-14
    """Two messages a round, of 52 tokens each: the least summary, as a transcript."""
    one = found("lead_subagent", 2, work(rounds=rounds, tokens=100, budget=budget, protocol="transcript"))
    assert one.coordination_tokens == int(rounds * 2 * 52 * share)  # 24 × 2.2 = 52.8


def test_compaction_takes_no_more_than_35_percent() -> None:  # Z-14
    one = found("lead_subagent", 2, work(rounds=1000, tokens=100, protocol="transcript"))
    assert one.coordination_tokens == int(2000 * 52 * 0.65)


@pytest.mark.parametrize(
    ("topology", "protocol", "share"),
    [
        ("single", "a2a_lite", 0.07),
        ("single", "transcript", 0.04),
        ("lead_subagent", "a2a_lite", 0.10),
        ("star_team", "a2a_lite", 0.12),
        ("mesh_team", "transcript", 0.09),
    ],
)
def test_savings_of_the_cache(topology: Topology, protocol: Protocol, share: float) -> None:  # Z-14
    one = found(topology, 2, work(protocol=protocol))
    assert one.cache_savings == int(
        one.execution_tokens * (TOPOLOGIES[topology].cache + PROTOCOLS[protocol].cache_bonus)
    )
    assert one.cache_savings == pytest.approx(one.execution_tokens * share, abs=1)


@pytest.mark.parametrize(("cache", "share"), [(-0.5, 0.0), (0.9, 0.30)])
def test_the_share_of_the_cache_has_bounds(cache: float, share: float) -> None:
    one = figures(TOPOLOGIES["single"]._replace(cache=cache), 1, work(), DEGRADATIONS["none"])
    assert one.cache_savings == int(one.execution_tokens * share)


def test_total_ratio_limit_and_headroom() -> None:  # Z-14
    """2 tasks of 500: execution 1000, no messages; savings trunc(1000 × 0.07) = 70; limit 1000 + 2 × 20."""
    one = found("single", 1, work(tasks=2, tokens=500))
    assert (one.total_tokens, one.coordination_ratio, one.budget_limit, one.budget_headroom) == (930, 0.0, 1040, 110)
    pair = found("lead_subagent", 2, work(tasks=2, tokens=500))
    # 950 + trunc(8 × 40 × 0.82) - 95; 262 / 1117 = 0.23455…
    assert (pair.coordination_tokens, pair.total_tokens, pair.coordination_ratio) == (262, 1117, 0.2346)


def test_nothing_costs_at_least_one_token() -> None:
    nothing = figures(TOPOLOGIES["single"]._replace(execution=0.0), 1, work(), DEGRADATIONS["none"])
    assert (nothing.execution_tokens, nothing.total_tokens) == (0, 1)


@pytest.mark.parametrize(
    ("topology", "given", "degradation", "expected"),
    [
        ("star_team", work(), "none", 0.89),  # 0.88 + 0.01
        ("star_team", work(budget="low", workload="debugging", protocol="transcript"), "aggressive", 0.78),
        ("mesh_team", work(budget="high", workload="research"), "auto", 0.85),  # 0.82 + 0.02 + 0.01 + 0.01 - 0.01
    ],
)
def test_quality_adds_up(
    topology: Topology, given: TopologyInput, degradation: Degradation, expected: float
) -> None:  # Z-14
    one = found(topology, 3, given, degradation)
    assert one.pass_rate == expected
    assert one.defect_escape == round(1 - expected, 4)


@pytest.mark.parametrize(("own", "expected"), [(1.5, 0.99), (-0.5, 0.0)])
def test_quality_has_bounds(own: float, expected: float) -> None:
    one = figures(TOPOLOGIES["single"]._replace(pass_rate=own), 1, work(), DEGRADATIONS["none"])
    assert (one.pass_rate, one.defect_escape) == (expected, round(1 - expected, 4))


def test_time_and_throughput() -> None:  # Z-14
    """10 tasks by 4 workers: 10 / 4 × 6 × 1.18 = 17.7; 60 messages of 0.02 s, or of 0.032 s with transcripts."""
    one = found("star_team", 5, work(tasks=10, workload="debugging"))
    assert (one.messages, one.p95_latency_s) == (60, 18.9)
    assert one.throughput == round(10 / 18.9 * 86400, 2) == 45714.29
    whole = found("star_team", 5, work(tasks=10, workload="debugging", protocol="transcript"))
    assert whole.p95_latency_s == 19.62


def test_throughput_takes_no_less_than_a_second() -> None:
    quick = TOPOLOGIES["single"]._replace(seconds_per_task=0.01)
    one = figures(quick, 1, work(tasks=2), DEGRADATIONS["none"])
    assert (one.p95_latency_s, one.throughput) == (0.02, 172800.0)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (PREFERENCES["balanced"], 0.36 + 0.35 * 0.25 + 0.20 * 0.5),
        (PREFERENCES["cost"], 0.20 + 0.55 * 0.25 + 0.20 * 0.5),
        (PREFERENCES["quality"], 0.52 + 0.20 * 0.25 + 0.15 * 0.5),
    ],
)
def test_a_score(weights: Weights, expected: float) -> None:  # Z-14
    assert score(weights, 0.8, 75, 20.0, most_tokens=100, slowest=40.0) == round(expected, 5)


@pytest.mark.parametrize("topology", get_args(Topology))
@given(
    participants=st.integers(1, 40),
    rounds=st.integers(0, 100),
    workload=st.sampled_from(get_args(Workload)),
)
def test_more_workers_never_have_fewer_messages(
    topology: Topology, participants: int, rounds: int, workload: Workload
) -> None:
    few = found(topology, participants, work(rounds=rounds, workload=workload))
    more = found(topology, participants + 1, work(rounds=rounds, workload=workload))
    assert more.messages >= few.messages
    assert more.parallelism >= few.parallelism


@given(
    topology=st.sampled_from(get_args(Topology)),
    participants=st.integers(1, 8),
    tasks=st.integers(1, 10_000_000),
    tokens=st.integers(1, 100_000_000),
    rounds=st.integers(0, 1_000_000),
    budget=st.sampled_from(get_args(BudgetLevel)),
    protocol=st.sampled_from(get_args(Protocol)),
)
def test_headroom_and_total_make_the_limit(
    topology: Topology, participants: int, tasks: int, tokens: int, rounds: int, budget: BudgetLevel, protocol: Protocol
) -> None:
    one = found(topology, participants, work(tasks, tokens, rounds, budget, "mixed", protocol))
    assert one.budget_headroom + one.total_tokens == one.budget_limit
    assert 0 <= one.coordination_ratio <= 1
    assert one.total_tokens < 2**53


def gates(ratio: float = 0.99, passes: float = 0.01, seconds: float = 1e9) -> Gates:
    return Gates(max_coordination_ratio=ratio, min_pass_rate=passes, max_p95_latency_s=seconds)


def test_each_gate_is_kept_at_its_bound_and_broken_just_beyond() -> None:
    one = found("star_team", 5, work(workload="mixed"))
    assert (one.coordination_ratio, one.pass_rate, one.p95_latency_s) == (0.1511, 0.89, 39.2)
    assert check_gates(one, gates(ratio=0.1511)).coordination_ratio
    assert not check_gates(one, gates(ratio=0.1510)).coordination_ratio
    assert check_gates(one, gates(passes=0.89)).pass_rate
    assert not check_gates(one, gates(passes=0.8901)).pass_rate
    assert check_gates(one, gates(seconds=39.2)).p95_latency_s
    assert not check_gates(one, gates(seconds=39.19)).p95_latency_s


def test_gates_look_at_rounded_figures() -> None:
    """The ratio is 4988 / 33007 = 0.151119…, which is above 0.1511 and rounds to it."""
    one = found("star_team", 5, work(workload="mixed"))
    assert one.coordination_tokens / one.total_tokens > 0.1511
    assert check_gates(one, gates(ratio=0.1511)).coordination_ratio


@pytest.mark.parametrize(("rounds", "keeps"), [(0, True), (4, False)])
def test_the_budget_is_kept_up_to_the_last_token(rounds: int, keeps: bool) -> None:
    profile = TOPOLOGIES["lead_subagent"]._replace(execution=1.0, cache=-1.0)
    given = work(tasks=10, tokens=1000, rounds=rounds)
    exact = TopologyInput(10, 1000, rounds, given.budget._replace(message_budget=0), given.workload, given.protocol)
    one = figures(profile, 2, exact, DEGRADATIONS["none"])
    assert check_gates(one, gates()).budget is keeps
    if keeps:
        assert one.total_tokens == one.budget_limit == 10_000
