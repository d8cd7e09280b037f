"""What a run will spend: from past runs of the same team where there are enough, else from simulated ones."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from time import sleep

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Limits, ModelAgent, ScriptedAgent, Team
from teamwright.agents.agent import Context
from teamwright.agents.attachments import Attachment
from teamwright.agents.scripted import Rule
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.lab.simulation.simulate import ENOUGH_RUNS, FEWEST_SIMULATED, SIMULATED_RUNS, forecast_run
from teamwright.strategies.protocol import Members, Task
from teamwright.values.limits import Bounds, Quantiles, SpendForecast
from teamwright.values.turns.results import Outcome
from teamwright.values.usage_and_prices import Price
from tests.kit.strategies import FunctionStrategy

PRICE = Price(input=1.0, output=10.0)


def echo(task: str) -> str:
    return task


def pair(reply: str = "a fair reply of some length", **settings: object) -> Team:
    names = ("writer", "critic")
    members = [ScriptedAgent(one, [Rule(reply=reply)], price=PRICE, source="replies.yaml") for one in names]
    return Team("pair", members=members, **settings)  # pyright: ignore[reportArgumentType]


async def past(journal: MemoryJournal, runs: int, team: Team | None = None, limits: Limits | None = None) -> None:
    async with Engine(journal) as engine:
        for _ in range(runs):
            await engine.run(team or pair(), "go", limits=limits)


@pytest.fixture
def few_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the simulated runs, for tests to which their number is nothing."""
    monkeypatch.setattr("teamwright.lab.simulation.simulate.SIMULATED_RUNS", SIMULATED_RUNS // 10)


async def test_enough_past_runs_of_the_same_team_are_the_forecast() -> None:
    journal = MemoryJournal()
    await past(journal, ENOUGH_RUNS - 1)
    assert (await forecast_run(journal, pair(), "go")).basis == "simulation"
    await past(journal, 1)
    spent = (await journal.runs())[0]
    forecast = await forecast_run(journal, pair(), "another task", Limits(usd=2))
    assert (forecast.basis, forecast.runs, forecast.ceiling) == ("runs", ENOUGH_RUNS, Bounds(usd=2))
    assert forecast.tokens == Quantiles(p50=spent.total_tokens, p90=spent.total_tokens)
    assert forecast.usd == Quantiles(p50=round(spent.usd or 0, 6), p90=round(spent.usd or 0, 6))
    assert forecast.asks == Quantiles(p50=2, p90=2)


async def test_runs_of_another_team_and_runs_that_a_limit_stopped_do_not_count() -> None:
    journal = MemoryJournal()
    await past(journal, ENOUGH_RUNS, pair(strategy="round_robin", max_turns=3))
    await past(journal, ENOUGH_RUNS, limits=Limits(tokens=1))
    await past(journal, ENOUGH_RUNS, Team("pair", members=[FunctionAgent("writer", echo)]))
    assert (await forecast_run(journal, pair(), "go")).basis == "simulation"


async def test_a_simulation_shows_money_tokens_and_asks_and_is_the_same_each_time() -> None:
    journal = MemoryJournal()
    one, again = [await forecast_run(journal, pair(), "go") for _ in range(2)]
    assert one == again
    assert (one.basis, one.runs, one.asks) == ("simulation", SIMULATED_RUNS, Quantiles(p50=2, p90=2))
    assert one.tokens is not None
    assert one.usd is not None
    assert 0 < one.tokens.p50 < one.tokens.p90
    assert 0 < one.usd.p50 < one.usd.p90


@pytest.mark.usefixtures("few_simulations")
async def test_a_long_task_and_more_turns_cost_more() -> None:
    journal = MemoryJournal()
    growing = [
        await forecast_run(journal, pair(), "go"),
        await forecast_run(journal, pair(), "go " * 20_000),
        await forecast_run(journal, pair(strategy="round_robin", max_turns=3), "go " * 20_000),
    ]
    tokens = [one.tokens.p50 for one in growing if one.tokens is not None]
    assert all(before < after for before, after in pairwise(tokens))
    assert len(tokens) == 3


@pytest.mark.usefixtures("few_simulations")
async def test_files_count_in_every_prompt_that_contains_them_also_where_past_runs_had_none() -> None:
    journal = MemoryJournal()
    await past(journal, ENOUGH_RUNS)
    page = Attachment(b"word " * 20_000, "page.txt")
    plain, attached = await forecast_run(journal, pair(), "go"), await forecast_run(journal, pair(), "go", None, [page])
    assert (plain.basis, attached.basis) == ("runs", "simulation")
    assert plain.tokens is not None
    assert attached.tokens is not None
    assert 2 * 25_000 < attached.tokens.p50 - plain.tokens.p50 < 2 * 26_000


@pytest.mark.usefixtures("few_simulations")
async def test_a_confirmation_counts_every_file_of_the_task_or_the_team_once(tmp_path: Path) -> None:
    (page := tmp_path / "page.txt").write_bytes(b"word " * 20_000)
    seen = list[SpendForecast]()

    def refuse(forecast: SpendForecast) -> bool:
        seen.append(forecast)
        return False

    async with Engine(MemoryJournal()) as engine:
        await engine.run(pair(), "go", attachments=[page], confirm=refuse)
        await engine.run(pair(), "go", attachments=[page, Attachment(b"word " * 20_000, "other.txt")], confirm=refuse)
        await engine.run(pair(attachments=[page]), "go", confirm=refuse)
    assert seen.pop() == seen[0]
    one, two = [forecast.tokens.p50 for forecast in seen if forecast.tokens is not None]
    assert 50_000 < one < 55_000
    assert 49_000 < two - one < 51_000


async def test_a_large_team_is_simulated_less_often() -> None:
    team = pair(strategy="round_robin", max_turns=100)
    forecast = await forecast_run(MemoryJournal(), team, "go")
    assert forecast.runs == FEWEST_SIMULATED
    assert forecast.asks == Quantiles(p50=200, p90=200)


@pytest.mark.experts
@pytest.mark.usefixtures("few_simulations")
async def test_the_timeout_of_an_expert_team_is_named_unless_the_run_has_seconds_of_its_own() -> None:
    team = Team("t", members=[FunctionAgent("a", echo)], strategy="expert")
    assert (await forecast_run(MemoryJournal(), team, "Go.")).ceiling == Bounds(seconds=600)
    given = await forecast_run(MemoryJournal(), team, "Go.", Limits(seconds=3600))
    assert given.ceiling == Bounds(seconds=3600)


@pytest.mark.usefixtures("few_simulations")
async def test_the_limits_of_the_team_are_a_ceiling_too() -> None:
    forecast = await forecast_run(MemoryJournal(), pair(limits=Limits(tokens=300, calls=9)), "go", Limits(tokens=900))
    assert forecast.ceiling == Bounds(tokens=300, calls=9)


@pytest.mark.parametrize(
    ("model", "known"), [("openai:gpt-4o", True), ("local", True), ("openai:no-such-model", False)]
)
async def test_a_price_that_is_not_known_is_not_zero(model: str, known: bool) -> None:
    team = Team("t", members=[ModelAgent("m", model=model)])
    assert ((await forecast_run(MemoryJournal(), team, "go")).usd is not None) is known


async def test_a_strategy_that_can_not_be_simulated_has_no_forecast() -> None:
    async def waits(task: Task, members: Members, ctx: Context) -> Outcome:
        await anyio.to_thread.run_sync(sleep, 0.05)
        return Outcome()

    team = Team("t", members=[FunctionAgent("a", echo)], strategy=FunctionStrategy(waits))
    forecast = await forecast_run(MemoryJournal(), team, "go", Limits(usd=1))
    assert (forecast.basis, forecast.tokens, forecast.usd, forecast.ceiling) == ("unknown", None, None, Bounds(usd=1))
