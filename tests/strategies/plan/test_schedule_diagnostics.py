"""Figures of schedules: the longest chain, and how much of the width is used."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, strategies as st

from teamwright.strategies.plan.schedule import diagnose
from teamwright.strategies.plan.schedule_maker import PlannerSettings, make_schedule
from teamwright.values.specs.plan import Plan
from tests.strategies.plan.plans import plan, plans


def test_the_figures_of_a_small_plan() -> None:  # Z-07
    made = plan(a="/ core", b="a / web", c="a / api", d="b c / api")
    figures = diagnose(make_schedule(made, PlannerSettings(max_parallel=2)), made)
    assert figures.to_json() == {
        "task_count": 4,
        "batch_count": 3,
        "edge_count": 4,
        "critical_path_len": 3,
        "critical_path": ["a", "b", "d"],
        "max_parallelism": 2,
        "mean_parallelism": 1.3333,
        "efficiency": 0.6667,
        "lock_count": 4,
    }


@given(plans(), st.integers(1, 5))
def test_the_critical_path_is_a_chain_and_no_chain_is_longer(plan: Plan, width: int) -> None:  # Z-07
    schedule = make_schedule(plan, PlannerSettings(max_parallel=width))
    figures = diagnose(schedule, plan)
    needs = {step.id: step.needs for step in plan.steps}
    path = figures.critical_path
    assert all(before in needs[after] for before, after in pairwise(path))
    depth: dict[str, int] = {}
    for id_ in schedule.order:
        depth[id_] = 1 + max((depth[need] for need in needs[id_]), default=0)
    assert len(path) == figures.critical_path_len == max(depth.values()) <= figures.batch_count
    assert 0 < figures.efficiency <= 1
    assert figures.mean_parallelism <= figures.max_parallelism <= width
