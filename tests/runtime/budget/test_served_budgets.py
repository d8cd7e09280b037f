"""Budgets of teams whose provider counts tokens itself, at prices of input and output that differ."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from bench.budget_provider import Provider
from bench.budget_served import KINDS, Unit, serve
from teamwright import Limits
from teamwright.journal.in_memory_journal import MemoryJournal

# Its import reads large tables, which a worker that runs none of these tests can do without.
pytestmark = pytest.mark.skipif(find_spec("bpe_openai") is None, reason="the extra 'tokens' is not installed")
SMALL = ("sequential", "fan_out", "splitter", "hierarchical", "star_team")


@pytest.mark.parametrize("unit", ["tokens", "usd"])
@pytest.mark.parametrize("kind", [*SMALL, pytest.param("live", marks=pytest.mark.experts)])
async def test_a_run_with_a_little_more_than_it_needs_does_all_of_its_work(kind: str, unit: Unit) -> None:  # Z-10
    async with Provider("known") as provider:
        free = await serve(kind, 0, provider)
        need = free.tokens if unit == "tokens" else free.usd
        limit = round(need * 1.1) if unit == "tokens" else need * 1.1
        run = await serve(kind, 0, provider, limits=Limits.model_validate({unit: limit}))
    assert (run.result.status, run.answered) == ("completed", True), run.result.warnings
    assert (run.tokens if unit == "tokens" else run.usd) <= limit


@pytest.mark.parametrize(("kind", "seed"), [("expert", 402), ("collaborate", 401), ("lead_subagent", 402)])
async def test_what_is_kept_for_the_answer_refuses_no_work_that_the_limit_pays_for(kind: str, seed: int) -> None:
    """A call that has returned is no longer to come, a forecast errs, and excerpts are shorter than messages: Z-10."""
    async with Provider("known") as provider:
        free = await serve(kind, seed, provider)
        run = await serve(kind, seed, provider, limits=Limits(tokens=round(free.tokens * 1.1)))
    assert (run.result.status, run.answered) == ("completed", True), run.result.warnings
    assert run.tokens <= free.tokens * 1.1


@pytest.mark.parametrize(
    ("kind", "seed", "unit"),
    [
        ("sequential", 1, "tokens"),
        pytest.param("live", 3, "tokens", marks=pytest.mark.experts),
        pytest.param("live", 3, "usd", marks=pytest.mark.experts),
        ("hierarchical", 2, "usd"),
    ],
)
async def test_an_answer_that_would_be_cut_is_given_from_less_instead(kind: str, seed: int, unit: Unit) -> None:  # Z-11
    """Replies before it were longer than those before them, so what was kept back pays for a part of an answer."""
    async with Provider("known") as provider:
        free = await serve(kind, seed, provider)
        need = free.tokens if unit == "tokens" else free.usd
        limit = round(need * 0.8) if unit == "tokens" else round(need * 0.8, 9)
        run = await serve(kind, seed, provider, limits=Limits.model_validate({unit: limit}))
    assert run.answered, run.result.warnings
    assert (run.tokens if unit == "tokens" else run.usd) <= limit


async def test_a_wide_plan_of_short_steps_is_not_refused_what_its_limit_pays_for() -> None:  # Z-10
    """Sixty steps and an answer that need 87 % of the limit, with the economy model or without a ladder."""
    async with Provider("known") as provider:
        free = await serve("dag_61", 0, provider)
        for degradation in ("none", "auto"):
            run = await serve("dag_61", 0, provider, limits=Limits(usd=free.usd / 0.855), degradation=degradation)
            assert run.result.status == "completed", run.result.warnings
            assert run.usd <= free.usd / 0.855


async def test_what_one_run_has_shown_of_a_tokenizer_the_next_one_knows() -> None:  # Z-10
    """An engine of its own each, as of short commands that share a journal."""
    async with Provider("unknown") as provider:
        free = await serve("sequential", 0, provider)
        limits, journal = Limits(tokens=round(free.tokens * 1.1)), MemoryJournal()
        cold = await serve("sequential", 0, provider, limits=limits)
        await serve("sequential", 1000, provider, journal)
        warm = await serve("sequential", 0, provider, journal, limits)
    assert cold.result.status == "degraded"
    assert any("set  tokenizer  of the model" in warning for warning in cold.result.warnings), cold.result.warnings
    assert warm.result.status == "completed", warm.result.warnings


def test_every_kind_of_team_is_measured() -> None:
    assert len(KINDS) >= 14
