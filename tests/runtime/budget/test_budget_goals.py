"""The goals of budgets, on teams of every strategy whose costs are known: a sample of `python -m bench.budgets`."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from bench.budget_teams import OPTIONS, Member
from bench.budgets import measure
from teamwright import Context, Reply, Turn

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


@pytest.mark.parametrize("strategy", ["sequential", "round_robin", "graph", "fan_out", "dag", "single"])
async def test_a_run_whose_members_all_have_cheaper_models_does_its_whole_work_with_less(strategy: str) -> None:  # Z-11
    """What is kept for the answer has the price of the cheaper model as well, so it leaves room for the work."""
    cell = await measure(strategy, "auto", 80, RUNS)
    assert (cell.answered, cell.completed) == (1.0, 1.0)


@pytest.mark.parametrize(("strategy", "rungs"), [("fan_out", 0.5), ("dag", 0.1)])
async def test_members_that_overtake_each_other_look_no_dearer_than_they_are(
    strategy: str, rungs: float, monkeypatch: pytest.MonkeyPatch
) -> None:  # Z-11
    """An ask counts with what it was charged itself, not with what others were charged while it ran.

    In whichever order they end, runs need at most 0.4 and 0 rungs on average; if an ask were charged with what others
    spend meanwhile, they would need more than 1 and 0.12.
    """
    answer, random = Member.respond, Random(3)

    async def respond(self: Member, turn: Turn, ctx: Context) -> Reply:
        reply = await answer(self, turn, ctx)
        for _ in range(random.randrange(7)):
            await asyncio.sleep(0)
        return reply

    monkeypatch.setattr(Member, "respond", respond)
    cell = await measure(strategy, "auto", 150, 8)
    assert (cell.answered, cell.completed) == (1.0, 1.0)
    assert cell.rungs <= rungs
