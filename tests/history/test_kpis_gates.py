"""Gates: how they are written, and what keeps to them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import UnknownName, UsageError
from teamwright.history.kpis import DEFAULTS, FIGURES, KpiGate, Kpis, check_gates, read_gates

MEASURED = Kpis(
    run_id="r", team="t", status="completed", stop_reason="done", seconds=3.5, steps=5, passed=4, failed=1,
    stopped=0, open=0, skipped=0, asks=7, throughput=98_742.86, pass_rate=0.8, defect_escape=0.2, total_tokens=1000,
    work_tokens=790, coordination_tokens=200, judge_tokens=10, coordination_ratio=0.2, p95_latency_s=1.25, usd=None,
)  # fmt: skip


def broken(*texts: str, kpis: Kpis = MEASURED) -> list[str]:
    return [str(one.gate) for one in check_gates(read_gates(texts), kpis) if not one.passed]


def test_a_figure_at_its_bound_keeps_to_it() -> None:  # Z-12
    assert broken("coordination_ratio<=0.20", "pass_rate>=0.80", "total_tokens<=1000", "p95_latency_s<=1.25") == []
    assert broken("coordination_ratio<=0.1999", "pass_rate>=0.8001") == [
        "coordination_ratio<=0.1999",
        "pass_rate>=0.8001",
    ]
    assert broken("total_tokens<=999", "p95_latency_s<=1.24") == ["total_tokens<=999", "p95_latency_s<=1.24"]


def test_the_usual_gates_are_the_ratio_and_the_pass_rate() -> None:  # Z-12
    assert [str(gate) for gate in DEFAULTS] == ["coordination_ratio<=0.2", "pass_rate>=0.8"]
    assert read_gates(["default"]) == DEFAULTS
    assert read_gates(["default", "usd<=1", "pass_rate >= .8", "default"]) == (*DEFAULTS, *read_gates(["usd<=1"]))


def test_a_figure_that_is_not_there_keeps_to_nothing() -> None:  # Z-12
    found = check_gates(read_gates(["usd<=5", "usd>=0"]), MEASURED)
    assert [one.passed for one in found] == [False, False]
    assert "usd is unknown" in found[0].words


def test_a_gate_shows_the_value_and_the_bound() -> None:
    [one] = check_gates(read_gates(["pass_rate>=0.9"]), MEASURED)
    shown = {"gate": "pass_rate>=0.9", "figure": "pass_rate", "value": 0.8, "passed": False, "assumed": 4}
    assert one.to_json() == shown
    assert one.words == "pass_rate>=0.9: pass_rate is 0.8 (4 assumed), and has to be at least 0.9"


@pytest.mark.parametrize(
    "text",
    [
        "", "pass_rate", "pass_rate>0.8", "pass_rate=0.8", "pass_rate>=", ">=3", "pass_rate>=nan", "usd<=inf", "a b<=1",
        "usd<=1e", "usd<=1<=2",
    ],
)  # fmt: skip
def test_a_value_that_is_no_gate_is_reported_with_what_is_expected(text: str) -> None:  # Z-12
    with pytest.raises(UsageError, match=r"is no gate: write a figure, <= or >=, and a number"):
        read_gates([text])


def test_an_unknown_measure_is_reported_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="pass_rate"):
        read_gates(["pas_rate>=0.8"])


@given(st.sampled_from(FIGURES), st.sampled_from(["<=", ">="]), st.integers(0, 10**7).map(lambda one: one / 10_000))
def test_a_gate_reads_as_it_is_written(figure: str, bound: str, limit: float) -> None:
    [gate] = read_gates([f"{figure}{bound}{limit}"])
    assert (gate.figure, gate.bound, gate.limit) == (figure, bound, limit)
    assert read_gates([str(gate)]) == (gate,)
    value = MEASURED.figure(figure)
    assert gate.holds(value) == (value is not None and (value <= limit if bound == "<=" else value >= limit))
    assert KpiGate(figure=figure, bound=gate.bound, limit=limit).holds(limit)


def test_a_gate_may_ask_that_nothing_is_only_assumed() -> None:
    [one] = check_gates(read_gates(["assumed<=0"]), MEASURED)
    assert (one.value, one.passed) == (4, False)
