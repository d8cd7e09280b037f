"""Starts the runs of schedules that are due. Every worker has one; one at a time looks.

A tick starts one run although workers die: the run's id names the tick, and a run of an id is submitted once. Only then
the schedule goes on to its next tick. A tick for which the budget of its tenant has no room is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, Protocol

from teamwright.cluster.submission.schedule import batch_at, next_tick
from teamwright.cluster.worker.log import WorkerReport
from teamwright.errors import BudgetUnavailable, JournalError, JournalUnavailable, RunIsLive, UsageError
from teamwright.journal.postgres.stores import PostgresSchedules, ScheduleRow
from teamwright.journal.protocol import Batch, Journal
from teamwright.runtime.admission.tenant_budgets import TenantBudgets

LOOK_SECONDS: Final = 1.0
LOCK: Final = "cluster/schedules"
"""The lock under which one worker at a time looks; no run has such an id."""


class Submit(Protocol):
    """Submits the first batch of a run; returns False if there is a run of this id already."""

    def __call__(self, batch: Batch, queue: str, /, *, priority: int) -> Awaitable[bool]: ...


class Scheduler:
    """Looks for schedules that are due, for all queues."""

    def __init__(self, journal: Journal, schedules: PostgresSchedules, submit: Submit, report: WorkerReport) -> None:
        self._journal, self._schedules, self._submit, self._report = journal, schedules, submit, report
        self._troubles: dict[str, str] = {}

    async def watch(self) -> None:
        """Look again and again, also after the database was away."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                async with self._journal.drive(LOCK):
                    await self.look()
            except RunIsLive:
                pass  # another worker looks
            except JournalError as error:
                self._report("trouble", detail=f"can't look for runs that are due: {error}")

    async def look(self) -> None:
        """Start the runs that are due now; what is wrong with a schedule is reported once, though it stays due."""
        troubles: dict[str, str] = {}
        for schedule in await self._schedules.due():
            try:
                await self._start(schedule)
            except JournalUnavailable:
                raise
            except (JournalError, UsageError) as error:
                troubles[schedule.name] = f"can't start a run of the schedule {schedule.name!r}: {error}"
                if self._troubles.get(schedule.name) != troubles[schedule.name]:
                    self._report("trouble", detail=troubles[schedule.name])
        self._troubles = troubles

    async def _start(self, schedule: ScheduleRow) -> None:
        template = await self._schedules.run_of(schedule.name)
        if template is None:
            return
        tick = next_tick(schedule, await self._schedules.now())
        batch = batch_at(template, tick)
        if batch.claim is not None:
            await TenantBudgets(self._journal).settle_ended()
        last_run = tick.run_id
        try:
            if await self._submit(batch, schedule.queue, priority=schedule.priority):
                self._report("scheduled", tick.run_id, repr(schedule.name))
        except BudgetUnavailable as error:
            self._report("trouble", tick.run_id, f"the schedule {schedule.name!r} leaves out {tick.run_id}: {error}")
            last_run = schedule.last_run
        await self._schedules.advance(schedule, tick.following, last_run)
