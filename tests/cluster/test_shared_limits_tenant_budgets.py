"""Budgets of tenants across runs, on a real database: no run begins that could overspend one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, strategies as st

from teamwright import Engine, FunctionAgent, Team
from teamwright.cluster.schedules import Tick, batch_at, template_of
from teamwright.errors import BudgetUnavailable, InterventionRefused, NotResumable, UsageError
from teamwright.journal.copy import copy_runs
from teamwright.journal.postgres.connection import Connection
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import commit
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.journal.tenant_budgets import BudgetClaim, Budgets, TenantBudget
from teamwright.runtime.budget.tenant_budgets import TenantBudgets
from teamwright.values.limits import Limits
from teamwright.values.usage_and_prices import Usage
from tests.kit.postgres import schema_url
from tests.runtime.virtual_time import Caller, Provider

PICO = 10**12


@pytest.fixture
async def journal(postgres_server: str, tmp_path: Path) -> AsyncGenerator[PostgresJournal]:
    opened = PostgresJournal(schema_url(postgres_server, tmp_path))
    await opened.open()
    yield opened
    await opened.close()


@pytest.fixture
async def engine(postgres_server: str, tmp_path: Path) -> AsyncGenerator[Engine]:
    async with Engine(schema_url(postgres_server, tmp_path)) as opened:
        yield opened


def team(seconds: float = 0.0, times: int = 1) -> Team:
    provider = Provider(lambda number: seconds, usage=Usage(requests=1, input_tokens=10, output_tokens=10))
    return Team("t", members=[Caller("m", provider, times=times, cap=10)])


async def found(journal: PostgresJournal, name: str = "team-a") -> TenantBudget:
    budget = await journal.budgets.find(name)
    assert budget is not None
    return budget


async def test_a_run_reserves_its_limits_and_is_settled_at_what_it_spent(
    engine: Engine, journal: PostgresJournal
) -> None:
    await journal.budgets.put("team-a", None, 1000, "day")
    handle = await engine.start(team(0.05, times=2), "go", limits=Limits(tokens=600), budget="team-a")
    held = await found(journal)
    assert (held.reserved_tokens, held.left_tokens, held.runs) == (600, 400, 1)
    assert (await handle.result()).status == "completed"
    after = await found(journal)
    assert (after.spent_tokens, after.reserved_tokens, after.left_tokens, after.runs) == (40, 0, 960, 0)


async def test_a_run_for_which_there_is_no_room_is_refused_in_words_and_leaves_nothing(
    engine: Engine, journal: PostgresJournal
) -> None:
    await journal.budgets.put("team-a", None, 1000, "ever")
    one = await engine.start(team(9.0), "go", limits=Limits(tokens=600), budget="team-a")
    with pytest.raises(BudgetUnavailable, match=r"'team-a' has 400 tokens of 1,000 tokens left, and the run needs 401"):
        await engine.start(team(), "go", run_id="two", limits=Limits(tokens=401), budget="team-a")
    assert await journal.find("two") is None
    three = await engine.run(team(), "go", limits=Limits(tokens=400), budget="team-a")
    assert three.status == "completed"
    one.interrupt()
    await one.result()
    assert (await found(journal)).reserved_tokens == 600  # it may be resumed
    assert (await engine.resume(one.run_id, team=team())).status == "completed"
    assert (await found(journal)).reserved_tokens == 0


async def test_a_run_needs_a_limit_where_its_budget_has_one(engine: Engine, journal: PostgresJournal) -> None:
    await journal.budgets.put("team-a", 5 * PICO, None, "week")
    with pytest.raises(UsageError, match=r"bounds money, .* --max-usd"):
        await engine.start(team(), "go", limits=Limits(tokens=5), budget="team-a")
    with pytest.raises(UsageError, match=r"no budget 'team-b'; .* teamwright cluster budget team-b"):
        await engine.start(team(), "go", limits=Limits(tokens=5), budget="team-b")


async def test_the_limits_of_the_team_count_as_well(engine: Engine, journal: PostgresJournal) -> None:
    await journal.budgets.put("team-a", 5 * PICO, None, "month")
    made = Team("t", members=[Caller("m", Provider(lambda number: 0.0))], limits=Limits(usd=2))
    handle = await engine.start(made, "go", limits=Limits(usd=3), budget="team-a")
    held = await found(journal)
    assert (held.reserved_usd, held.left_usd) == (2 * PICO, 3 * PICO)
    await handle.result()


async def test_only_a_journal_in_postgres_keeps_budgets() -> None:
    async with Engine("memory") as engine:
        with pytest.raises(UsageError, match="only a journal in Postgres keeps budgets"):
            await engine.start(team(), "go", budget="team-a")


async def test_a_run_that_ended_without_being_settled_is_settled_by_the_next(
    engine: Engine, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(budgets: TenantBudgets, run_id: str) -> None:
        """Settle nothing, as a process that is killed after the last event."""

    await journal.budgets.put("team-a", None, 1000, "day")
    with monkeypatch.context() as patch:
        patch.setattr(TenantBudgets, "settle", die)
        await engine.run(team(), "go", limits=Limits(tokens=1000), budget="team-a")
    assert (await found(journal)).reserved_tokens == 1000
    await engine.run(team(), "go", limits=Limits(tokens=980), budget="team-a")
    assert (await found(journal)).spent_tokens == 40


async def test_a_run_whose_record_is_damaged_keeps_its_reservation_and_holds_up_no_other_run(
    engine: Engine, journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def die(budgets: TenantBudgets, run_id: str) -> None:
        """Settle nothing, as a process that is killed after the last event."""

    async def damage(connection: Connection) -> None:
        await connection.execute("UPDATE events SET data = '{' WHERE number = 1")

    await journal.budgets.put("team-a", None, 1000, "day")
    with monkeypatch.context() as patch:
        patch.setattr(TenantBudgets, "settle", die)
        await engine.run(team(), "go", limits=Limits(tokens=300), budget="team-a")
    await journal._pool.use(damage)
    await engine.run(team(), "go", limits=Limits(tokens=700), budget="team-a")
    after = await found(journal)
    assert (after.spent_tokens, after.reserved_tokens) == (20, 300)


async def test_a_run_that_was_deleted_before_it_was_settled_counts_in_full(
    engine: Engine, journal: PostgresJournal
) -> None:
    await journal.budgets.put("team-a", None, 1000, "day")
    handle = await engine.start(team(9.0), "go", limits=Limits(tokens=300), budget="team-a")
    handle.interrupt()
    await handle.result()
    await engine.runs.delete(handle.run_id)
    await TenantBudgets(journal).settle_ended()
    after = await found(journal)
    assert (after.spent_tokens, after.reserved_tokens) == (300, 0)


async def test_a_limit_is_raised_only_as_far_as_the_budget_allows(engine: Engine, journal: PostgresJournal) -> None:
    await journal.budgets.put("team-a", None, 1000, "day")
    handle = await engine.start(team(9.0), "go", limits=Limits(tokens=300), budget="team-a")
    await engine.runs.raise_budget(handle.run_id, Limits(tokens=800))
    assert (await found(journal)).reserved_tokens == 800
    with pytest.raises(InterventionRefused, match="'team-a' has 200 tokens of 1,000 tokens left"):
        await engine.runs.raise_budget(handle.run_id, Limits(tokens=1001))
    assert (await found(journal)).reserved_tokens == 800
    handle.interrupt()
    await handle.result()


async def test_a_fork_draws_on_the_budget_of_its_source_and_pays_for_its_own_calls(
    engine: Engine, journal: PostgresJournal
) -> None:
    await journal.budgets.put("team-a", None, 1000, "day")
    first = await engine.run(team(times=2), "go", run_id="first", limits=Limits(tokens=500), budget="team-a")
    assert first.usage.total_tokens == 40
    forked = await engine.fork("first", task="again", team=team(times=1))
    assert forked.status == "completed"
    assert (await found(journal)).spent_tokens == 60
    await engine.fork("first", team=team(times=2))  # repeats no call
    assert (await found(journal)).spent_tokens == 60
    with pytest.raises(BudgetUnavailable):
        await engine.fork("first", team=team(), limits=Limits(tokens=941))


async def test_a_copy_elsewhere_is_not_resumed_without_its_budget(
    engine: Engine, journal: PostgresJournal, tmp_path: Path
) -> None:
    await journal.budgets.put("team-a", None, 1000, "day")
    handle = await engine.start(team(9.0), "go", limits=Limits(tokens=300), budget="team-a")
    handle.interrupt()
    await handle.result()
    copy = SqliteJournal(tmp_path / "copy.db")
    await copy.open()
    assert [one.outcome async for one in copy_runs(journal, copy, None)] == ["copied"]
    await copy.close()
    async with Engine(tmp_path / "copy.db") as other:
        with pytest.raises(NotResumable, match="names the budget 'team-a', which is kept in Postgres"):
            await other.resume(handle.run_id, team=team())
        assert (await other.fork(handle.run_id, team=team())).status == "completed"


async def test_many_processes_never_reserve_more_than_there_is(journal: PostgresJournal) -> None:
    await journal.budgets.put("team-a", 100, None, "day")

    async def reserve(number: int) -> bool:
        try:
            await journal.budgets.reserve(f"run-{number}", BudgetClaim("team-a", usd=7))
        except BudgetUnavailable:
            return False
        return True

    assert sum(await asyncio.gather(*map(reserve, range(30)))) == 100 // 7


async def test_a_new_period_begins_with_nothing_spent_and_open_reservations(journal: PostgresJournal) -> None:
    budgets = journal.budgets
    await budgets.put("team-a", 100, None, "day")
    await budgets.reserve("one", BudgetClaim("team-a", usd=40))
    await budgets.reserve("two", BudgetClaim("team-a", usd=40))
    assert await budgets.settle("one", BudgetClaim("", usd=30, tokens=0))
    assert not await budgets.settle("one", BudgetClaim("", usd=30, tokens=0))
    today = await found(journal)
    assert (today.spent_usd, today.reserved_usd) == (30, 40)

    async def a_day_passes(connection: Connection) -> None:
        await connection.execute("UPDATE budgets SET since = since - interval '1 day'")
        await connection.execute("UPDATE budget_reservations SET settled = settled - interval '1 day'")

    await journal._pool.use(a_day_passes)
    tomorrow = await found(journal)
    assert (tomorrow.spent_usd, tomorrow.reserved_usd) == (0, 40)
    await budgets.settle("two", BudgetClaim("", usd=40, tokens=0))
    assert (await found(journal)).spent_usd == 40
    await budgets.put("team-a", 100, 7, "day")  # sums up what was spent
    assert (await found(journal)).spent_usd == 40


async def test_a_budget_that_was_removed_bounds_nothing(engine: Engine, journal: PostgresJournal) -> None:
    await journal.budgets.put("team-a", None, 1000, "day")
    handle = await engine.start(team(9.0), "go", limits=Limits(tokens=300), budget="team-a")
    assert await journal.budgets.remove("team-a")
    assert not await journal.budgets.remove("team-a")
    await engine.runs.raise_budget(handle.run_id, Limits(tokens=5000))
    handle.interrupt()
    await handle.result()
    assert (await engine.resume(handle.run_id, team=team())).status == "completed"
    await journal.budgets.put("team-a", None, 1000, "day")
    assert (await found(journal)).spent_tokens > 0


@dataclass(frozen=True)
class Step:
    """One thing that happens to a budget: a run reserves, raises what it holds, or is settled."""

    run: int
    usd: int
    settles: bool


steps = st.lists(st.builds(Step, st.integers(0, 4), st.integers(0, 60), st.booleans()), max_size=20)


def test_reservations_and_spend_never_exceed_a_budget(postgres_server: str, tmp_path: Path) -> None:
    async def check(budgets: Budgets, name: str, happened: list[Step]) -> None:
        await budgets.put(name, 100, None, "ever")
        held, spent = dict[int, int](), 0
        for step in happened:
            run = f"{name}-{step.run}"
            if step.settles:
                used = min(step.usd, held.get(step.run, 0))
                assert await budgets.settle(run, BudgetClaim("", used, 0)) == (step.run in held)
                spent += used if held.pop(step.run, None) is not None else 0
                continue
            more = max(held.get(step.run, 0), step.usd)
            fits = spent + sum(held.values()) - held.get(step.run, 0) + more <= 100
            try:
                await budgets.reserve(run, BudgetClaim(name, step.usd))
            except BudgetUnavailable:
                assert not fits
            else:
                assert fits
                held[step.run] = more
            found = await budgets.find(name)
            assert found is not None
            assert (found.spent_usd, found.reserved_usd, found.runs) == (spent, sum(held.values()), len(held))

    with asyncio.Runner() as runner:
        journal = PostgresJournal(schema_url(postgres_server, tmp_path))
        runner.run(journal.open())

        @given(steps)
        def law(happened: list[Step]) -> None:
            runner.run(check(journal.budgets, f"b{uuid4().hex}", happened))

        law()
        runner.run(journal.close())


async def test_each_run_of_a_schedule_reserves_for_itself(engine: Engine, journal: PostgresJournal) -> None:
    await journal.budgets.put("team-a", None, 1000, "day")
    first = await engine.enqueue(
        Team("t", members=[FunctionAgent("m", str.upper)]), "go", queue="q", limits=Limits(tokens=600), budget="team-a"
    )
    batches = [batch_at(template_of(first), Tick(time, f"daily-{time}", 0.0)) for time in (1, 2)]
    await commit(journal, batches[0])
    assert (await found(journal)).reserved_tokens == 600
    with pytest.raises(BudgetUnavailable):
        await commit(journal, batches[1])
    assert await journal.find("daily-2") is None
