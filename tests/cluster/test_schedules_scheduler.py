"""Each tick of a schedule starts one run, although many workers look and one may die at any point."""

from __future__ import annotations

from teamwright.cluster.schedules import Scheduler, template_of
from teamwright.cluster.status import WorkerLog
from teamwright.journal.postgres.cluster_tables import PostgresSchedules, ScheduleRow
from teamwright.values.limits import Limits
from tests.kit.workers import Cluster, eventually


async def _add(cluster: Cluster, schedules: PostgresSchedules, name: str, cron: str = "0 0 1 1 *") -> ScheduleRow:
    """Add a schedule that is due since a minute."""
    row = ScheduleRow(name, cron, "UTC", "default", 0, 1.0, await schedules.now() - 60)
    batch = await cluster.engine.enqueue(cluster.team, "report", queue="default")
    for _ in range(2):  # a reply that was lost repeats it
        assert await schedules.add(row, template_of(batch))
    assert not await schedules.add(row, "another one of this name")
    assert not await schedules.add(row._replace(made=2.0), template_of(batch))
    return row


async def test_a_tick_starts_one_run_also_if_its_worker_dies_before_it_goes_on(cluster: Cluster) -> None:
    schedules, said = cluster.journal.cluster.schedules, list[str]()
    scheduler = Scheduler(cluster.journal, schedules, cluster.client.submit, WorkerLog(said.append))
    row = await _add(cluster, schedules, "yearly")
    await scheduler.look()
    (started,) = await cluster.engine.runs.list()
    (after,) = await schedules.list()
    assert (after.last_run, started.status) == (started.id, "queued")
    assert after.next > await schedules.now()
    await schedules.advance(after, row.next, "")  # as if the worker had died before it went on
    await scheduler.look()
    assert [run.id for run in await cluster.engine.runs.list()] == [started.id]
    assert await schedules.list() == [after]
    await scheduler.look()
    assert said == [f"the schedule 'yearly' starts {started.id}"]


async def test_a_damaged_schedule_does_not_hold_up_the_others(cluster: Cluster) -> None:
    schedules, said = cluster.journal.cluster.schedules, list[str]()
    scheduler = Scheduler(cluster.journal, schedules, cluster.client.submit, WorkerLog(said.append))
    assert await schedules.add(ScheduleRow("damaged", "@daily", "UTC", "default", 0, 1.0, 1.0), "{}")
    assert await schedules.add(ScheduleRow("wrong", "no cron", "UTC", "default", 0, 1.0, 2.0), "{}")
    await _add(cluster, schedules, "good")
    for _ in range(2):
        await scheduler.look()
    assert [run.id.partition("-")[0] for run in await cluster.engine.runs.list()] == ["good"]
    assert [line.partition(":")[0].partition(" starts")[0] for line in said] == [
        "can't start a run of the schedule 'damaged'",
        "can't start a run of the schedule 'wrong'",
        "the schedule 'good'",
    ], "trouble is reported once"
    assert await schedules.remove("damaged")
    assert not await schedules.remove("damaged")


async def test_a_tick_for_which_the_budget_has_no_room_is_skipped(cluster: Cluster) -> None:
    schedules, said = cluster.journal.cluster.schedules, list[str]()
    await cluster.journal.budgets.put("team-a", None, 100, "day")
    batch = await cluster.engine.enqueue(cluster.team, "x", queue="default", budget="team-a", limits=Limits(tokens=80))
    for name in ("first", "second"):
        row = ScheduleRow(name, "0 0 1 1 *", "UTC", "default", 0, 1.0, await schedules.now() - 60)
        assert await schedules.add(row, template_of(batch))
    await Scheduler(cluster.journal, schedules, cluster.client.submit, WorkerLog(said.append)).look()
    assert [line.split()[2:4] for line in said] == [["'first'", "starts"], ["'second'", "leaves"]]
    assert await schedules.due() == []
    assert [bool(one.last_run) for one in await schedules.list()] == [True, False]


async def test_workers_start_and_drive_the_runs_of_a_schedule(cluster: Cluster) -> None:
    schedules = cluster.journal.cluster.schedules
    await _add(cluster, schedules, "yearly")
    workers = [cluster.start(), cluster.start()]
    await eventually(lambda: any(one.has_said("finished yearly-") for one in workers), "the run of the tick ends")
    (run,) = await cluster.engine.runs.list()
    assert run.status == "completed"
    assert sum(one.has_said("starts yearly-") for one in workers) == 1
    await cluster.check(run.id, task="report")
