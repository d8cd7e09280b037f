"""The goals of budgets, on teams of every strategy whose costs are known: a sample of `python -m bench.budgets`."""

from __future__ import annotations

import pytest

from bench.budget_teams import OPTIONS
from bench.budgets import measure

RUNS = 4


@pytest.mark.parametrize("strategy", OPTIONS)
async def test_a_run_with_less_than_it_needs_ends_with_an_answer_inside_its_limit(strategy: str) -> None:  # Z-11
    cell = await measure(strategy, "auto", 80, RUNS)
    assert cell.answered >= 0.75
    assert cell.overspent == 0


@pytest.mark.parametrize("strategy", OPTIONS)
async def test_a_run_with_a_little_more_than_it_needs_always_ends_with_an_answer(strategy: str) -> None:  # Z-10
    cell = await measure(strategy, "auto", 110, RUNS)
    assert (cell.answered, cell.overspent) == (1.0, 0)
