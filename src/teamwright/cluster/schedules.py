"""Schedules, which start a run again and again: cron expressions, ticks, and the scheduler of a worker.

A tick starts one run although workers die: the run's id names the tick, and a run of an id is submitted once. Only then
the schedule goes on to its next tick. A tick for which the budget of its tenant has no room is left out. Only this
module imports croniter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Protocol, Self, cast
from zoneinfo import ZoneInfo

from msgspec import convert, structs
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.cluster.status import WorkerReport
from teamwright.errors import BudgetUnavailable, JournalCorrupt, JournalError, JournalUnavailable, RunIsLive, UsageError
from teamwright.journal.codec import decode_event, encode_event
from teamwright.journal.postgres.cluster_tables import PostgresSchedules, ScheduleRow
from teamwright.journal.protocol import Batch, Journal
from teamwright.journal.tenant_budgets import BudgetClaim
from teamwright.runtime.budget.tenant_budgets import TenantBudgets
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.names import check_name
from teamwright.values.turns.messages import digest

FIELDS = 5
HINT = 'write five fields, "minute hour day month weekday", such as "0 7 * * mon-fri", or @hourly, @daily, @weekly'
_SEED_DIGITS = 12
LOOK_SECONDS: Final = 1.0
LOCK: Final = "cluster/schedules"
"""The lock under which one worker at a time looks; no run has such an id."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields, or a word such as @daily. Raises `UsageError` for any other text."""

    text: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        from croniter import croniter

        try:
            ZoneInfo(self.zone)
        except (KeyError, OSError, ValueError) as error:
            raise UsageError(f"There is no time zone {self.zone!r}; write it like Europe/Berlin, or UTC.") from error
        words = self.text.split()
        if (len(words) != FIELDS and not self.text.startswith("@")) or not croniter.is_valid(self.text):
            raise UsageError(f"{self.text!r} is no cron expression; {HINT}.")
        try:
            self.after(datetime.now(UTC).timestamp())
        except ValueError as error:
            raise UsageError(
                f"No time matches the cron expression {self.text!r}, such as a 30th of February."
            ) from error

    @classmethod
    def read(cls, text: str) -> Self:
        """Read an expression, which a time zone may follow; without one the zone is UTC."""
        *words, last = text.split() or [""]
        if last[:1].isalpha() and (len(words) == FIELDS or (len(words) == 1 and words[0].startswith("@"))):
            return cls(" ".join(words), last)
        return cls(text)

    def after(self, time: float) -> float:
        """Return the first time after this one."""
        return self._step(time, forward=True)

    def latest(self, time: float) -> float:
        """Return the last time that is not after this one."""
        return self._step(time + 1e-3, forward=False)

    def _step(self, time: float, *, forward: bool) -> float:
        from croniter import croniter

        steps = croniter(self.text, datetime.fromtimestamp(time, ZoneInfo(self.zone)))
        return (steps.get_next(datetime) if forward else steps.get_prev(datetime)).timestamp()


@dataclass(frozen=True, slots=True)
class Tick:
    """One time of a schedule: when it was due, the id of its run, and the time of the tick after it."""

    time: float
    run_id: str
    following: float


def run_id_at(name: str, time: float) -> str:
    """Return the id of the run that a schedule starts at a time: the same in every process."""
    return check_name("run", f"{name}-{datetime.fromtimestamp(time, UTC):%Y%m%d-%H%M%S}")


def next_tick(schedule: ScheduleRow, now: float) -> Tick:
    """Return the tick that is due now: ticks that were missed, while no worker ran, are made up by the last of them."""
    cron = Cron(schedule.cron, schedule.zone)
    time = max(schedule.next, cron.latest(now))
    return Tick(time, run_id_at(schedule.name, time), cron.after(max(now, time)))


def template_of(batch: Batch) -> str:
    """Return the first batch of a run as text, from which each tick makes its own."""
    events = [encode_event(event) for event in batch.events]
    claim = None if batch.claim is None else structs.asdict(batch.claim)
    return to_json({"events": events, "bodies": dict(batch.bodies), "claim": claim}).decode()


def batch_at(template: str, tick: Tick) -> Batch:
    """Return the first batch of the run of a tick; raises `JournalCorrupt` if the template was damaged."""
    try:
        data = cast("Mapping[str, JsonValue]", from_json(template))
        events, bodies = data["events"], data["bodies"]
        if not isinstance(events, list) or not events or not isinstance(bodies, dict):
            raise ValueError("it has no events and bodies")
        claim = convert(data.get("claim"), BudgetClaim | None)
    except (ValueError, KeyError, TypeError) as error:
        raise JournalCorrupt(f"What the schedule of run {tick.run_id!r} starts can't be read: {error}.") from error
    return Batch(
        [_event_at(decode_event(tick.run_id, str(text)), tick) for text in events],
        {body: str(text) for body, text in bodies.items()},
        claim=claim,
    )


def _event_at(event: Event, tick: Tick) -> Event:
    fact = event.fact
    if isinstance(fact, RunStarted):
        fact = fact.changed(seed=int(digest(tick.run_id)[:_SEED_DIGITS], 16))
    return structs.replace(event, time=tick.time, fact=fact)


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
