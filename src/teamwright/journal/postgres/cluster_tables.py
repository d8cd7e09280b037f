"""The tables of a cluster: queued runs, schedules, and workers.

What a schedule starts is text here, and what a worker says of itself is JSON.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import LiteralString, NamedTuple

from psycopg.types.json import Jsonb

from teamwright.journal.postgres.connection import Connection, DatabaseAddress, UseConnection
from teamwright.journal.postgres.rate_limits import ModelPace, read_paces
from teamwright.journal.postgres.rows import read_clock, read_driven, read_ended, read_last_items, read_summaries
from teamwright.values.turns.results import RunSummary
from teamwright.values.value import JsonValue

QUEUE_TABLES: LiteralString = """
    -- The runs that were submitted to queues. Those who queue runs read and write its rows.
    -- `drive` is the workflow that drives the run, or is about to; only `worker` may claim it, if there is a name.
    -- A run without a drive gets one at `due`, or else when there is something to do for it; `reason` says why not now.
    CREATE TABLE queued_runs (
        run text PRIMARY KEY, queue text NOT NULL, priority bigint NOT NULL, drive text,
        worker text NOT NULL DEFAULT '', since float8 NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
        due float8, reason text NOT NULL DEFAULT '', waits boolean NOT NULL DEFAULT false
    );
    CREATE INDEX runs_to_enqueue ON queued_runs (due) WHERE drive IS NULL OR worker <> '';
"""

SCHEDULE_TABLES: LiteralString = """
    -- `run` is what each run of the schedule begins with. `next` is the time of the next run, which only grows.
    CREATE TABLE schedules (
        name text PRIMARY KEY, cron text NOT NULL, zone text NOT NULL, queue text NOT NULL, priority bigint NOT NULL,
        made float8 NOT NULL, next float8 NOT NULL, last_run text NOT NULL DEFAULT '', run text NOT NULL
    );
    CREATE INDEX schedules_by_next ON schedules (next);
"""
_SCHEDULE_COLUMNS: LiteralString = "name, cron, zone, queue, priority, made, next, last_run"


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
                f"INSERT INTO schedules ({_SCHEDULE_COLUMNS}, run) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
                # A row that is the same was added before, and the reply was lost.
                " ON CONFLICT (name) DO UPDATE SET name = excluded.name"
                " WHERE (schedules.made, schedules.run) = (excluded.made, excluded.run)",
                (*schedule, run),
            )
            return cursor.rowcount == 1

        return await self._use(work)

    async def list(self) -> list[ScheduleRow]:
        return await self._select(f"SELECT {_SCHEDULE_COLUMNS} FROM schedules ORDER BY name")

    async def due(self) -> list[ScheduleRow]:
        """Return the schedules whose next run is due, by the clock of the database, the oldest first."""
        return await self._select(
            f"SELECT {_SCHEDULE_COLUMNS} FROM schedules"
            " WHERE next <= extract(epoch FROM clock_timestamp()) ORDER BY next"
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


WORKER_TABLES: LiteralString = """
    -- A worker that was not `seen` for a while has died. `data` is what it says of itself.
    CREATE TABLE workers (id text PRIMARY KEY, seen timestamptz NOT NULL, data jsonb NOT NULL);
"""
FORGET_SECONDS = 3600.0
"""How long a worker that died is still listed."""


class WorkerRow(NamedTuple):
    """A worker, and how many seconds ago it was seen, by the database's clock."""

    id: str
    age: float
    data: dict[str, JsonValue]


class PostgresWorkers:
    """The list of workers of one journal."""

    def __init__(self, use: UseConnection) -> None:
        self._use = use

    async def update(self, worker_id: str, data: dict[str, JsonValue]) -> None:
        """Say that a worker lives, and what it does; forget those that died long ago."""

        async def work(connection: Connection) -> None:
            await connection.execute(
                "WITH gone AS (DELETE FROM workers WHERE seen < now() - make_interval(secs => %s))"
                " INSERT INTO workers VALUES (%s, now(), %s)"
                " ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, data = excluded.data",
                (FORGET_SECONDS, worker_id, Jsonb(data)),
            )

        await self._use(work)

    async def remove(self, worker_id: str) -> None:
        """Remove a worker that stopped in order."""

        async def work(connection: Connection) -> None:
            await connection.execute("DELETE FROM workers WHERE id = %s", (worker_id,))

        await self._use(work)

    async def all(self) -> list[WorkerRow]:
        """Return all workers by id, also those that died within the last hour."""

        async def work(connection: Connection) -> list[WorkerRow]:
            cursor = await connection.execute(
                "SELECT id, extract(epoch FROM now() - seen)::float8, data FROM workers ORDER BY id"
            )
            return [WorkerRow(*row) for row in await cursor.fetchall()]

        return await self._use(work)


class ClusterTables:
    """What the processes of a cluster share beside the runs, and ask about many runs at once."""

    def __init__(self, address: DatabaseAddress, use: UseConnection) -> None:
        self._address, self._use = address, use
        self.schedules = PostgresSchedules(use)
        self.workers = PostgresWorkers(use)

    async def now(self) -> float:
        """Return the time by the clock of the database, which all machines share, in seconds since 1970."""
        return await self._use(read_clock)

    async def paces(self) -> list[ModelPace]:
        """Return how fast each model is called, by all processes together."""
        return await self._use(read_paces)

    async def driven(self, run_ids: Collection[str]) -> set[str]:
        """Return those of these runs whose driver lock is held by any process."""
        return await self._use(lambda connection: read_driven(connection, self._address, list(run_ids)))

    async def summaries(self, run_ids: Collection[str]) -> dict[str, RunSummary]:
        which: LiteralString = "WHERE id = ANY(%s::text[])"
        wanted = (list(run_ids),)
        found = await self._use(lambda connection: read_summaries(connection, self._address, which, wanted))
        return {one.id: one for one in found}

    async def last_inbox_items(self, run_ids: Collection[str]) -> dict[str, int]:
        """Return the id of the last inbox item of those of these runs that have one."""
        return await self._use(lambda connection: read_last_items(connection, list(run_ids)))

    async def ended_before(self, seconds: float, limit: int) -> list[str]:
        """Return the oldest runs that are no children and ended more than `seconds` ago, by the database's clock."""
        return await self._use(lambda connection: read_ended(connection, seconds, limit))
