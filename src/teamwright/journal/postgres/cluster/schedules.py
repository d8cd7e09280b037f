"""Schedules of runs, in the database of the journal. What they start is text here."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from teamwright.journal.postgres.connection import Connection, UseConnection
from teamwright.journal.postgres.queries import read_clock

SCHEDULE_TABLES: LiteralString = """
    -- `run` is what each run of the schedule begins with. `next` is the time of the next run, which only grows.
    CREATE TABLE schedules (
        name text PRIMARY KEY, cron text NOT NULL, zone text NOT NULL, queue text NOT NULL, priority bigint NOT NULL,
        made float8 NOT NULL, next float8 NOT NULL, last_run text NOT NULL DEFAULT '', run text NOT NULL
    );
    CREATE INDEX schedules_by_next ON schedules (next);
"""
_COLUMNS: LiteralString = "name, cron, zone, queue, priority, made, next, last_run"


class ScheduleRow(NamedTuple):
    """A schedule without what its runs begin with; times are in seconds since 1970."""

    name: str
    cron: str
    zone: str
    queue: str
    priority: int
    made: float
    next: float
    last_run: str = ""


class PostgresSchedules:
    """Adds, lists and removes schedules."""

    def __init__(self, use: UseConnection) -> None:
        self._use = use

    async def now(self) -> float:
        """Return the time by the clock of the database."""
        return await self._use(read_clock)

    async def add(self, schedule: ScheduleRow, run: str) -> bool:
        """Add a schedule; returns False if there is another one of this name."""

        async def work(connection: Connection) -> bool:
            cursor = await connection.execute(
                f"INSERT INTO schedules ({_COLUMNS}, run) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
                # A row that is the same was added before, and the reply was lost.
                " ON CONFLICT (name) DO UPDATE SET name = excluded.name"
                " WHERE (schedules.made, schedules.run) = (excluded.made, excluded.run)",
                (*schedule, run),
            )
            return cursor.rowcount == 1

        return await self._use(work)

    async def list(self) -> list[ScheduleRow]:
        """Return all schedules by name."""
        return await self._select(f"SELECT {_COLUMNS} FROM schedules ORDER BY name")

    async def due(self) -> list[ScheduleRow]:
        """Return the schedules whose next run is due, by the clock of the database, the oldest first."""
        return await self._select(
            f"SELECT {_COLUMNS} FROM schedules WHERE next <= extract(epoch FROM clock_timestamp()) ORDER BY next"
        )

    async def run_of(self, name: str) -> str | None:
        """Return what the runs of a schedule begin with, or None if there is no such schedule."""

        async def work(connection: Connection) -> str | None:
            row = await (await connection.execute("SELECT run FROM schedules WHERE name = %s", (name,))).fetchone()
            return row[0] if row else None

        return await self._use(work)

    async def advance(self, schedule: ScheduleRow, following: float, last_run: str) -> None:
        """Set the time of the next run, unless another process has."""

        async def work(connection: Connection) -> None:
            await connection.execute(
                "UPDATE schedules SET next = %s, last_run = %s WHERE name = %s AND made = %s AND next = %s",
                (following, last_run, schedule.name, schedule.made, schedule.next),
            )

        await self._use(work)

    async def remove(self, name: str) -> bool:
        """Remove a schedule; returns False if there is none of this name. Runs that it has started go on."""

        async def work(connection: Connection) -> bool:
            return (await connection.execute("DELETE FROM schedules WHERE name = %s", (name,))).rowcount == 1

        return await self._use(work)

    async def _select(self, statement: LiteralString) -> list[ScheduleRow]:
        async def work(connection: Connection) -> list[ScheduleRow]:
            return [ScheduleRow(*row) for row in await (await connection.execute(statement)).fetchall()]

        return await self._use(work)
