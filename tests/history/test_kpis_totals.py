"""Many runs as one: sums are exact, ratios follow from sums, and what is not known stays unknown."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from teamwright.errors import UsageError
from teamwright.history.kpis import SUMMED, WORST, Kpis, total_of
from teamwright.values.turns.results import FINAL

ONE = Kpis(
    run_id="a", team="t", status="completed", stop_reason="done", seconds=2.0, steps=4, passed=3, failed=1, stopped=0,
    open=0, skipped=0, asks=5, throughput=100.0, pass_rate=0.75, defect_escape=0.25, total_tokens=100, work_tokens=80,
    coordination_tokens=20, judge_tokens=0, coordination_ratio=0.2, p95_latency_s=1.0, usd=0.5, judged=2,
)  # fmt: skip


def test_a_total_adds_up_and_its_ratios_follow_from_the_sums() -> None:
    other = ONE.changed(
        run_id="b", steps=1, passed=1, failed=0, total_tokens=300, coordination_tokens=180, seconds=6.0, throughput=20.0
    )
    total = total_of([ONE, other])
    assert (total.run_id, total.team, total.status, total.stop_reason) == ("total", "t", "completed", None)
    assert (total.steps, total.passed, total.pass_rate, total.defect_escape) == (5, 4, 0.8, 0.2)
    assert (total.total_tokens, total.coordination_ratio, total.usd) == (400, 0.5, 1.0)
    assert (total.seconds, total.throughput, total.p95_latency_s) == (8.0, 40.0, None)
    assert (total.judged, total.assumed) == (4, 0)


def test_a_total_has_the_worst_status_and_no_team_of_several() -> None:
    total = total_of([ONE, ONE.changed(status="degraded", team="u"), ONE.changed(status="timeout")])
    assert (total.status, total.team) == ("timeout", "")
    assert set(WORST) >= FINAL


def test_a_price_that_one_run_does_not_know_is_not_known_in_total() -> None:
    assert total_of([ONE, ONE.changed(usd=None)]).usd is None
    assert total_of([ONE, ONE.changed(usd=None, total_tokens=0)]).usd == 0.5
    assert total_of([ONE.changed(messages=3), ONE]).messages == 3


def test_no_runs_have_no_total() -> None:
    with pytest.raises(UsageError, match="no run to add up"):
        total_of([])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20))
def test_every_count_of_a_total_is_the_sum(counts: list[tuple[int, int]]) -> None:
    runs = [ONE.changed(steps=passed + failed, passed=passed, failed=failed) for passed, failed in counts]
    total = total_of(runs)
    assert all(getattr(total, name) == sum(getattr(run, name) for run in runs) for name in SUMMED)
