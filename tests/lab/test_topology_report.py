"""Reports: their fields, rankings, recommendation, gates, text and pictures, and protocols compared."""

from __future__ import annotations

from typing import Any, cast, get_args

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import UsageError
from teamwright.lab import compare, evaluate
from teamwright.lab.topology_model import (
    PREFERENCES,
    BudgetLevel,
    Degradation,
    Preference,
    Protocol,
    Topology,
    Workload,
)
from teamwright.lab.topology_report import COMPARED, Report

ROW = [
    "topology", "participants", "model_tier", "tasks_per_worker", "degradation_applied", "degradation_actions",
    "execution_tokens", "coordination_tokens", "cache_savings_tokens", "total_tokens", "coordination_ratio",
    "estimated_pass_rate", "estimated_defect_escape", "estimated_p95_latency_s", "estimated_throughput_tpd",
    "budget_limit_tokens", "budget_headroom_tokens", "gates", "gate_pass",
]  # fmt: skip


def reports() -> st.SearchStrategy[Report]:
    return st.builds(
        evaluate,
        budget=st.sampled_from(get_args(BudgetLevel)),
        tasks=st.integers(1, 300),
        avg_task_tokens=st.integers(1, 6000),
        coordination_rounds=st.integers(0, 30),
        topologies=st.lists(st.sampled_from(get_args(Topology)), min_size=1),
        workload=st.sampled_from(get_args(Workload)),
        protocol=st.sampled_from(get_args(Protocol)),
        degradation=st.sampled_from(get_args(Degradation)),
        recommend=st.sampled_from(get_args(Preference)),
        max_coordination_ratio=st.floats(0, 1, exclude_min=True, exclude_max=True),
        min_pass_rate=st.floats(0, 1, exclude_min=True, exclude_max=True),
        max_p95_latency=st.floats(0, 500, exclude_min=True),
        all_budgets=st.booleans(),
    )


def test_the_fields_of_a_report() -> None:  # Z-14
    found = evaluate(all_budgets=True).to_json()
    assert list(found) == ["inputs", "results", "rankings", "recommendation", "budget_sweep"]
    row = evaluate().results[0].to_json()
    assert list(row) == ROW
    assert row["gates"] == {"coordination_ratio_ok": True, "quality_ok": False, "latency_ok": True, "budget_ok": True}
    assert list(evaluate().rankings.to_json()) == [
        "cost_asc", "coordination_ratio_asc", "latency_asc", "pass_rate_desc",
    ]  # fmt: skip
    assert evaluate().recommendation.to_json() == {
        "mode": "balanced",
        "recommended_topology": "star_team",
        "scores": [
            {"topology": "star_team", "score": 0.5492, "gate_pass": True},
            {"topology": "lead_subagent", "score": 0.40958, "gate_pass": True},
        ],
        "used_gate_filtered_pool": True,
    }


def test_a_report_without_all_budgets_has_no_sweep_of_them() -> None:
    assert "budget_sweep" not in evaluate().to_json()


def test_the_sweep_of_budgets_goes_from_low_to_high() -> None:  # Z-14
    report = evaluate(all_budgets=True, budget="high")
    swept = report.to_json()["budget_sweep"]
    assert isinstance(swept, list)
    assert [list(one) for one in swept if isinstance(one, dict)] == [
        ["budget_profile", "results", "rankings", "recommendation"]
    ] * 3
    assert [one.settings.budget for one in report.budget_sweep] == ["low", "medium", "high"]
    assert report.results == report.budget_sweep[2].results == evaluate(budget="high").results


def test_the_row_of_a_degraded_mesh() -> None:  # Z-14 Z-15
    row = evaluate(degradation="auto").section.row("mesh_team")
    assert row.degradation_applied
    assert row.degradation_actions == (
        "reduce_participants:5->4", "tighten_summary_scale:0.82", "switch_model_tier:economy",
    )  # fmt: skip
    assert (row.participants, row.model_tier, row.tasks_per_worker) == (4, "economy", 8.0)


@pytest.mark.parametrize(("tasks", "expected"), [(24, 6.0), (10, 2.5), (9, 2.25), (7, 1.75), (1, 0.25)])
def test_tasks_for_each_worker(tasks: int, expected: float) -> None:  # Z-14
    assert evaluate(tasks=tasks, topologies=["star"]).results[0].tasks_per_worker == expected


def test_rankings_put_the_best_first() -> None:  # Z-14
    found = evaluate().rankings
    assert found.cost_asc == ("lead_subagent", "single", "star_team", "mesh_team")
    assert found.coordination_ratio_asc == ("single", "lead_subagent", "star_team", "mesh_team")
    assert found.latency_asc == ("star_team", "mesh_team", "single", "lead_subagent")
    assert found.pass_rate_desc == ("star_team", "lead_subagent", "mesh_team", "single")


def test_equal_ones_keep_the_order_in_which_they_were_named() -> None:
    """Without rounds star and mesh are equally quick, and there are no messages."""
    found = evaluate(coordination_rounds=0, topologies=["mesh", "star", "single"]).rankings
    assert found.latency_asc == ("mesh_team", "star_team", "single")
    assert found.coordination_ratio_asc == ("mesh_team", "star_team", "single")


@given(reports())
def test_scores_are_measured_against_the_pool_they_are_chosen_from(report: Report) -> None:  # Z-14
    for section in (report.section, *report.budget_sweep):
        passing = [row for row in section.results if row.gate_pass]
        pool = passing or list(section.results)
        choice = section.recommendation
        assert choice.used_gate_filtered_pool == bool(passing)
        assert {one.topology for one in choice.scores} == {row.topology for row in pool}
        weights = PREFERENCES[choice.mode]
        most, slowest = max(row.total_tokens for row in pool), max(row.estimated_p95_latency_s for row in pool)
        for one in choice.scores:
            row = section.row(one.topology)
            assert one.score == pytest.approx(
                weights.quality * row.estimated_pass_rate
                + weights.cost * (1 - row.total_tokens / most)
                + weights.latency * (1 - row.estimated_p95_latency_s / slowest),
                abs=5.1e-6,
            )
        assert [one.score for one in choice.scores] == sorted((one.score for one in choice.scores), reverse=True)
        assert choice.recommended_topology == choice.scores[0].topology


@given(reports())
def test_breaches_are_exactly_the_gates_that_are_not_passed(report: Report) -> None:
    broken = [
        (section.settings.budget, row.topology)
        for section in report.sections
        for row in section.results
        for passed in row.gates.to_json().values()
        if not passed
    ]
    assert [(breach.budget, breach.topology) for breach in report.breaches()] == broken
    for section in report.sections:
        assert all(row.budget_headroom_tokens + row.total_tokens == row.budget_limit_tokens for row in section.results)


def test_a_breach_names_budget_topology_and_figure() -> None:  # Z-14
    assert [str(breach) for breach in evaluate(topologies=["mesh", "single"]).breaches()] == [
        "medium budget, mesh_team: coordination_ratio 0.2183 is above 0.2",
        "medium budget, mesh_team: total_tokens 37791 is above 34080",
        "medium budget, single: estimated_pass_rate 0.79 is below 0.8",
    ]
    assert [str(breach) for breach in evaluate(topologies=["lead"], max_p95_latency=152.81).breaches()] == [
        "medium budget, lead_subagent: estimated_p95_latency_s 152.82 is above 152.81"
    ]


@pytest.mark.parametrize(
    ("gate", "at", "beyond"),
    [
        ("max_coordination_ratio", 0.1511, 0.1510),
        ("min_pass_rate", 0.89, 0.8901),
        ("max_p95_latency", 39.2, 39.19),
    ],
)
def test_a_gate_is_passed_at_its_bound(gate: str, at: float, beyond: float) -> None:  # Z-14
    assert not evaluate(topologies=["star"], **{gate: at}).breaches()  # pyright: ignore[reportArgumentType]
    assert len(evaluate(topologies=["star"], **{gate: beyond}).breaches()) == 1  # pyright: ignore[reportArgumentType]


def test_the_reason_for_a_recommendation_is_reported() -> None:
    text = " ".join(str(evaluate()).split())
    assert "star_team is recommended: of the 2 that pass their gates it has the best balanced score, 0.54920." in text
    assert "Compared with lead_subagent (0.40958), it takes 8.4 % more tokens and 74.3 % less time" in text
    assert "Failed gates: single, estimated_pass_rate 0.79 is below 0.8; mesh_team, coordination_ratio 0.2183" in text


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (evaluate(protocol="transcript"), "no other passes its gates; its balanced score is 0.36900."),
        (evaluate(topologies=["star"]), "it passes its gates; its balanced score is 0.40050."),
        (evaluate(topologies=["single"]), "it fails its gates, but is the only one; its balanced score is"),
        (evaluate(min_pass_rate=0.99), "none passes its gates, and of all 4 it has the best balanced score"),
        (evaluate(degradation="auto"), "Degraded: mesh_team, reduce_participants:5->4,"),
    ],
)
def test_a_reason_says_what_it_was_chosen_from(report: Report, expected: str) -> None:
    assert expected in " ".join(str(report).split())


@given(reports())
def test_every_report_can_be_written(report: Report) -> None:
    assert max(map(len, str(report).splitlines())) <= 100


def test_both_reports_are_those_of_evaluate() -> None:  # Z-14
    found = compare(budget="high", tasks=9)
    assert found.first == evaluate(budget="high", tasks=9, protocol="a2a_lite")
    assert found.second == evaluate(budget="high", tasks=9, protocol="transcript")


def test_a_difference_is_the_second_without_the_first() -> None:  # Z-14
    star = next(row for row in compare().differences if row.topology == "star_team")
    tokens = star.figures["total_tokens"]
    assert (tokens.first, tokens.second, tokens.difference) == (33007, 42390, 9383)
    assert star.figures["estimated_pass_rate"].difference == -0.03
    assert star.gate_pass == (True, False)


def test_the_fields_of_a_comparison() -> None:
    found = cast("dict[str, Any]", compare(all_budgets=True).to_json())
    assert list(found) == ["inputs", "a2a_lite", "transcript", "differences"]
    assert found["inputs"]["protocols"] == ["a2a_lite", "transcript"]
    assert list(found["transcript"]) == ["results", "rankings", "recommendation", "budget_sweep"]
    assert len(found["differences"]) == 3 * 4
    first = found["differences"][0]
    assert list(first) == ["budget_profile", "topology", *COMPARED, "gate_pass"]
    assert first["total_tokens"] == {"a2a_lite": 32186, "transcript": 33224, "difference": 1038}


def test_a_transcript_never_costs_less_and_never_passes_more() -> None:
    for row in compare(all_budgets=True).differences:
        assert row.figures["total_tokens"].difference > 0
        assert row.figures["estimated_pass_rate"].difference < 0


def test_ones_own_protocol_is_refused() -> None:
    with pytest.raises(UsageError, match="a2a_lite and transcript are compared; omit it"):
        compare(protocol="transcript")


def test_a_comparison_shows_what_is_recommended_with_each() -> None:  # Z-15
    text = " ".join(str(compare(all_budgets=True)).split())
    assert "With a low budget star_team is recommended either way." in text
    assert "With a medium budget star_team is recommended with a2a_lite, and lead_subagent with transcript." in text
    assert max(map(len, str(compare()).splitlines())) <= 80


def test_breaches_come_with_their_protocol() -> None:
    found = compare(topologies=["star"]).breaches()
    assert {protocol for protocol, _ in found} == {"transcript"}
