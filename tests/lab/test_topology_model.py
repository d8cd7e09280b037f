"""The topology model: its numbers to the last digit, its findings, degradation, and what a choice means for a plan."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from teamwright.lab.topology_model import (
    BudgetLevel,
    Degradation,
    Evaluation,
    EvaluationSettings,
    GateResults,
    Gates,
    Preference,
    Protocol,
    Topology,
    Workload,
    evaluate,
    evaluate_topology,
    planner_settings,
    recommend,
)
from tests.strategies.plan.plans import plan


def settings() -> st.SearchStrategy[EvaluationSettings]:
    return st.builds(
        EvaluationSettings,
        tasks=st.integers(1, 200),
        average_tokens=st.integers(1, 5000),
        rounds=st.integers(0, 40),
        budget=st.sampled_from(get_args(BudgetLevel)),
        workload=st.sampled_from(get_args(Workload)),
        protocol=st.sampled_from(get_args(Protocol)),
        degradation=st.sampled_from(get_args(Degradation)),
        recommendation=st.sampled_from(get_args(Preference)),
    )


def test_the_figures_of_the_usual_star_team() -> None:  # Z-14
    """Worked out by hand: 24 tasks of 1400 tokens, 4 rounds, 5 participants.

    messages = round(48 × 1.08) = 52; execution = trunc(33600 × 0.92 × 1.03) = 31839; summary = min(120, 112), then
    trunc(112 × 1.05) = 117; coordination = trunc(6084 × 0.82) = 4988; savings = trunc(31839 × 0.12) = 3820.
    """
    found = evaluate_topology("star_team", EvaluationSettings())
    assert found.to_json() == {
        "topology": "star_team",
        "participants": 5,
        "parallelism": 4,
        "model_tier": "primary",
        "messages": 52,
        "execution_tokens": 31839,
        "coordination_tokens": 4988,
        "cache_savings": 3820,
        "total_tokens": 33007,
        "coordination_ratio": 0.1511,
        "pass_rate": 0.89,
        "defect_escape": 0.11,
        "p95_latency_s": 39.2,
        "throughput": 52897.96,
        "budget_limit": 34080,
        "budget_headroom": 1073,
        "gates": {"coordination_ratio": True, "pass_rate": True, "p95_latency_s": True, "budget": True},
        "passed": True,
        "actions": [],
    }


@pytest.mark.parametrize(
    ("topology", "changes", "expected"),
    [
        ("single", {}, (1, 0, 34608, 0, 2422, 32186, 0.0, 0.79, 152.64, 13584.91)),
        ("lead_subagent", {}, (2, 9, 32877, 863, 3287, 30453, 0.0283, 0.85, 152.82, 13568.9)),
        ("mesh_team", {}, (5, 86, 33569, 8250, 4028, 37791, 0.2183, 0.83, 39.88, 51995.99)),
        ("star_team", {"budget": "low"}, (3, 26, 31839, 1611, 3820, 29630, 0.0544, 0.86, 76.84, 26985.94)),
        ("star_team", {"protocol": "transcript"}, (5, 52, 31839, 13416, 2865, 42390, 0.3165, 0.86, 39.82, 52074.33)),
        (
            "mesh_team",
            {"workload": "debugging", "rounds": 8, "budget": "high"},
            (5, 200, 36503, 18450, 4380, 50573, 0.3648, 0.83, 46.48, 44612.74),
        ),
        ("star_team", {"rounds": 40}, (5, 518, 31839, 32302, 3820, 60321, 0.5355, 0.89, 48.52, 42737.02)),
    ],
)
def test_the_figures_of_other_topologies(
    topology: Topology, changes: dict[str, object], expected: tuple[float, ...]
) -> None:  # Z-14
    one = evaluate_topology(topology, EvaluationSettings.model_validate(changes))
    assert (
        one.participants, one.messages, one.execution_tokens, one.coordination_tokens, one.cache_savings,
        one.total_tokens, one.coordination_ratio, one.pass_rate, one.p95_latency_s, one.throughput,
    ) == expected  # fmt: skip


def test_with_envelopes_a_star_team_is_recommended_and_with_transcripts_a_lead_and_its_subagent() -> None:  # Z-15
    assert evaluate(EvaluationSettings()).recommendation.topology == "star_team"
    found = evaluate(EvaluationSettings(protocol="transcript"))
    assert found.recommendation.topology == found.chosen.topology == "lead_subagent"
    assert {one.topology: one.passed for one in found.evaluations} == {
        "single": False, "lead_subagent": True, "star_team": False, "mesh_team": False,
    }  # fmt: skip


@pytest.mark.parametrize("budget", get_args(BudgetLevel))
def test_degradation_makes_a_mesh_acceptable_and_a_star_stays_the_balanced_choice(budget: BudgetLevel) -> None:  # Z-15
    plain = evaluate(EvaluationSettings(budget=budget))
    eased = evaluate(EvaluationSettings(budget=budget, degradation="auto"))
    mesh = {one.topology: one for one in eased.evaluations}["mesh_team"]
    assert mesh.passed
    assert eased.recommendation.topology == "star_team"
    if not {one.topology: one for one in plain.evaluations}["mesh_team"].passed:
        assert mesh.actions == ("reduce_participants:5->4", "tighten_summary_scale:0.82", "switch_model_tier:economy")
        assert (mesh.participants, mesh.model_tier) == (4, "economy")


def test_medium_and_high_budgets_are_where_a_mesh_needs_degradation() -> None:  # Z-15
    failing = [
        b for b in get_args(BudgetLevel) if not evaluate_topology("mesh_team", EvaluationSettings(budget=b)).passed
    ]
    assert failing == ["medium", "high"]


def test_the_figures_of_a_degraded_mesh() -> None:  # Z-14
    """Four participants: messages = round(48 × 1.08) = 52; summary = trunc(117 × 0.82) = 95."""
    one = evaluate_topology("mesh_team", EvaluationSettings(degradation="auto"))
    assert (one.messages, one.coordination_tokens, one.total_tokens) == (52, 4050, 33591)
    assert (one.coordination_ratio, one.pass_rate, one.p95_latency_s) == (0.1206, 0.82, 51.92)


def test_a_degraded_topology_that_still_fails_is_reported_as_it_is() -> None:
    one = evaluate_topology("star_team", EvaluationSettings(protocol="transcript", degradation="auto"))
    assert one.actions
    assert not one.passed
    assert not one.gates.coordination_ratio


def test_without_pressure_and_for_a_single_agent_nothing_is_degraded() -> None:
    assert evaluate_topology("star_team", EvaluationSettings(degradation="aggressive")).actions == ()
    alone = EvaluationSettings(degradation="aggressive", average_tokens=1, workload="debugging")
    assert evaluate_topology("single", alone).actions == ()
    pair = evaluate_topology("lead_subagent", alone)
    assert pair.actions[0] == "reduce_participants:2->2"


def test_where_none_passes_the_best_of_all_is_taken_and_the_report_says_so() -> None:
    strict = EvaluationSettings(gates=Gates(min_pass_rate=0.98))
    found = evaluate(strict).recommendation
    assert (found.pool, len(found.scores)) == ("all", 4)
    assert not any(score.passed for score in found.scores)
    assert evaluate(EvaluationSettings()).recommendation.pool == "passing"


def test_the_scores_of_the_usual_settings() -> None:  # Z-14
    """Star: 0.45 × 0.89 + 0.35 × (1 - 33007 / 33007) + 0.20 × (1 - 39.2 / 152.82)."""
    found = evaluate(EvaluationSettings()).recommendation
    assert [(one.topology, one.score) for one in found.scores] == [("star_team", 0.5492), ("lead_subagent", 0.40958)]


@pytest.mark.parametrize(("preference", "expected"), [("cost", 0.3712), ("quality", 0.69002), ("balanced", 0.5492)])
def test_preferences_weigh_quality_cost_and_latency(preference: Preference, expected: float) -> None:  # Z-14
    found = evaluate(EvaluationSettings(recommendation=preference)).recommendation
    assert {one.topology: one.score for one in found.scores}["star_team"] == expected


def test_of_equal_scores_the_first_is_taken() -> None:
    base = evaluate_topology("mesh_team", EvaluationSettings())
    twins = [base.changed(topology="star_team"), base, base.changed(topology="single")]
    assert recommend(twins, "balanced").topology == "star_team"


def test_short_names_are_taken_and_others_refused() -> None:
    read = EvaluationSettings.model_validate({"topologies": ["star", "lead", "mesh", "single", "star_team"]})
    assert [one.topology for one in evaluate(read).evaluations] == ["star_team", "lead_subagent", "mesh_team", "single"]
    with pytest.raises(ValidationError, match="'single', 'lead_subagent', 'star_team' or 'mesh_team'"):
        EvaluationSettings.model_validate({"topologies": ["ring"]})


@given(settings())
def test_the_figures_hang_together(settings: EvaluationSettings) -> None:
    report = evaluate(settings)
    assert report.chosen.topology == report.recommendation.topology
    for one in report.evaluations:
        _check(one, settings)
    passing = [one.topology for one in report.evaluations if one.passed]
    assert {one.topology for one in report.recommendation.scores} == set(passing or settings.topologies)


def _check(one: Evaluation, settings: EvaluationSettings) -> None:
    assert one.total_tokens == max(1, one.execution_tokens + one.coordination_tokens - one.cache_savings)
    assert one.budget_headroom == one.budget_limit - one.total_tokens
    assert one.pass_rate + one.defect_escape == pytest.approx(1)
    assert one.passed == one.gates.passed
    assert one.gates == GateResults(
        coordination_ratio=one.coordination_ratio <= 0.20,
        pass_rate=one.pass_rate >= 0.80,
        p95_latency_s=one.p95_latency_s <= 180,
        budget=one.budget_headroom >= 0,
    )
    assert bool(one.actions) == (one.model_tier == "economy")
    assert not one.actions or settings.degradation != "none"


@pytest.mark.parametrize(("budget", "floor", "messages"), [("low", 5, 10), ("medium", 10, 20), ("high", 16, 32)])
def test_a_choice_sets_width_budget_and_floor(budget: BudgetLevel, floor: int, messages: int) -> None:  # Z-09
    made = plan(a="", b="a", c="a")
    chosen = evaluate_topology("star_team", EvaluationSettings(budget=budget))
    found = planner_settings(chosen, made, budget)
    assert found.max_parallel == min(3, chosen.parallelism)
    assert found.run_budget == 3 * messages
    assert found.coordination_floor == floor
