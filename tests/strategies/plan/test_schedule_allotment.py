"""Who may spend how much: the laws of sharing, and the numbers of small cases."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from teamwright.strategies.plan.schedule import allot
from teamwright.values.specs.plan import Plan, Step
from tests.strategies.plan.plans import plans


def shares(asked: list[int], run_budget: int | None, floor: int = 8, work: int = 100) -> list[int]:
    steps = [Step(id=f"s{number}", execution_tokens=work, coordination_tokens=one) for number, one in enumerate(asked)]
    return [one.coordination for one in allot(steps, run_budget, floor)]


@pytest.mark.parametrize(
    ("asked", "run_budget", "expected"),
    [
        ([50, 3, 0], None, [50, 8, 8]),  # without a budget every step gets its request, raised to the floor
        ([50, 50, 50], 450, [50, 50, 50]),  # enough is enough
        ([50, 50, 50], 360, [20, 20, 20]),  # floors and equal shares
        ([50, 50, 50], 361, [21, 20, 20]),  # what division leaves over goes to the first
        ([50, 50, 50], 362, [21, 21, 20]),
        ([8, 50, 29], 350, [8, 26, 16]),  # 26 above the floors, in proportion to 42 and 21: 17.3 and 8.7
        ([8, 8, 50], 330, [8, 8, 14]),  # no step that requests at most the floor gets more
        ([50, 50, 50], 324, [8, 8, 8]),  # exactly the floors
        ([50, 50, 50], 320, [7, 7, 6]),  # below them an equal split, the rest to the first
        ([50, 50, 50], 301, [1, 0, 0]),
        ([50, 50, 50], 300, [0, 0, 0]),  # the work alone reaches the budget
        ([50, 50, 50], 10, [0, 0, 0]),
    ],
)
def test_coordination_shares_what_the_work_leaves(
    asked: list[int], run_budget: int | None, expected: list[int]
) -> None:  # Z-06
    assert shares(asked, run_budget) == expected


@given(plans(), st.integers(0, 4000), st.integers(0, 30))
def test_the_laws_of_sharing(plan: Plan, run_budget: int, floor: int) -> None:  # Z-06
    given = allot(plan.steps, run_budget, floor)
    asked = [max(step.coordination_tokens, floor) for step in plan.steps]
    left = run_budget - sum(step.execution_tokens for step in plan.steps)
    shared = [one.coordination for one in given]
    assert [one.execution for one in given] == [step.execution_tokens for step in plan.steps]
    assert all(0 <= one <= most for one, most in zip(shared, asked, strict=True))
    assert sum(shared) == min(sum(asked), max(0, left))
    if left >= floor * len(shared):
        assert min(shared) >= floor
    elif left > 0:
        assert shared == sorted(shared, reverse=True)
        assert max(shared) - min(shared) <= 1


@given(plans(), st.integers(0, 30))
def test_who_asks_for_more_never_gets_less(plan: Plan, floor: int) -> None:
    budget = (
        sum(step.execution_tokens for step in plan.steps) + sum(step.coordination_tokens for step in plan.steps) // 2
    )
    given = {one.task: one.coordination for one in allot(plan.steps, budget, floor)}
    ranked = sorted(plan.steps, key=lambda step: step.coordination_tokens)
    for less, more in pairwise(ranked):
        assert given[less.id] <= given[more.id] + 1  # one token may have come from what division left over
