from datetime import UTC, datetime

import pytest
from msgspec import structs

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.cluster.schedules import batch_at, next_tick, run_id_at, template_of
from teamwright.errors import InvalidName, JournalCorrupt
from teamwright.journal.postgres.cluster_tables import ScheduleRow
from teamwright.journal.tenant_budgets import BudgetClaim
from teamwright.runtime.engine import Engine
from teamwright.values.events.run import RunStarted


def _echo(text: str) -> str:
    return text


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def schedule(following: str) -> ScheduleRow:
    return ScheduleRow("report", "0 * * * *", "UTC", "default", 0, 0.0, at(following))


def test_a_tick_starts_a_run_whose_id_names_it() -> None:
    tick = next_tick(schedule("2026-05-31T07:00"), at("2026-05-31T07:00:02"))
    assert (tick.time, tick.run_id) == (at("2026-05-31T07:00"), "report-20260531-070000")
    assert tick.following == at("2026-05-31T08:00")


def test_missed_ticks_are_made_up_by_the_last_of_them() -> None:
    tick = next_tick(schedule("2026-05-31T07:00"), at("2026-05-31T12:30"))
    assert tick.run_id == "report-20260531-120000"
    assert tick.following == at("2026-05-31T13:00")


def test_a_name_that_no_run_can_have_is_refused() -> None:
    with pytest.raises(InvalidName):
        run_id_at("x" * 60, 0.0)


async def test_each_tick_begins_as_the_template_with_an_id_a_time_and_a_seed_of_its_own() -> None:
    async with Engine("memory") as engine:
        batch = await engine.enqueue(FunctionAgent("echo", _echo), "Report.", queue="night")
    claim = BudgetClaim("team-a", tokens=500)
    template = template_of(structs.replace(batch, claim=claim))
    ticks = [next_tick(schedule(f"2026-05-31T0{hour}:00"), at(f"2026-05-31T0{hour}:00")) for hour in (7, 8)]
    first, second = (batch_at(template, tick) for tick in ticks)
    assert batch_at(template, ticks[0]) == first
    assert [event.kind for event in first.events] == ["run.started", "run.queued"]
    assert {event.time for event in first.events} == {ticks[0].time}
    assert first.bodies == second.bodies
    assert first.claim == claim, "each run draws on the budget by itself"
    one, two = first.events[0].fact, second.events[0].fact
    assert isinstance(one, RunStarted)
    assert isinstance(two, RunStarted)
    assert one.seed != two.seed
    assert one == two.changed(seed=one.seed)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"events": [], "bodies": {}}', '{"events": ["x"], "bodies": {}}'])
def test_a_damaged_template_is_reported(text: str) -> None:
    with pytest.raises(JournalCorrupt):
        batch_at(text, next_tick(schedule("2026-05-31T07:00"), at("2026-05-31T07:00")))
