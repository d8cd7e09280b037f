"""The connection of a driver session, which holds the driver locks of its runs; one that is lost is replaced.

With a connection its locks are lost, and it is unknown whether its last statement was executed. So the next connection
first ends the former session on the server, then takes the locks back, then looks whether what was confirmed is still
there, and then the work is repeated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg

from teamwright.errors import JournalError, RunIsLive
from teamwright.journal.errors import events_lost, fenced_out
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.connection import (
    COMMIT_SECONDS,
    Connection,
    Work,
    connect,
    cut,
    is_lost,
    journal_error,
)
from teamwright.journal.postgres.statements import PreparedStatements
from teamwright.values.events.event import Event

T = TypeVar("T")

RECONNECT_SECONDS = 60.0
"""How long it tries to connect again before the runs of this process stop; they can be resumed."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


class DriverConnection:
    """A connection under a unique name, with one piece of work at a time."""

    def __init__(
        self,
        address: DatabaseAddress,
        name: str,
        connection: Connection,
        stopped: Callable[[str, JournalError], object],
    ) -> None:
        """Take over an open connection; `stopped` gets each run that can't go on here after a new one, with the reason.

        Another process drives the run by then, or the database has lost events of it.
        """
        self._address, self._name, self._connection, self._stopped = address, name, connection, stopped
        self.statements = PreparedStatements(connection)
        self._locks: dict[str, int] = {}
        self._confirmed: dict[str, Event] = {}
        self._lost_at: float | None = None

    def holds(self, run_id: str) -> bool:
        """Whether it holds the driver lock of a run."""
        return run_id in self._locks

    def confirm(self, event: Event) -> None:
        """Remember the last event of a run that the database has confirmed, if the lock of the run is held here."""
        if event.run_id in self._locks:
            self._confirmed[event.run_id] = event

    @property
    def holds_any(self) -> bool:
        """Whether it holds the driver lock of any run."""
        return bool(self._locks)

    async def lock(self, run_id: str) -> None:
        """Take the driver lock of a run; raises `RunIsLive` if it is held, also if it is held here."""
        key = self._address.lock_key(run_id)
        if run_id in self._locks or not await self.use(lambda connection: _try_lock(connection, key)):
            raise RunIsLive(run_id)
        self._locks[run_id] = key

    async def unlock(self, run_id: str) -> None:
        """Release the driver lock of a run, if it is held."""
        self._confirmed.pop(run_id, None)
        key = self._locks.pop(run_id, None)
        if key is not None:
            await self.use(lambda connection: _unlock(connection, key))

    async def use(self, work: Work[T]) -> T:
        """Do work on the connection; where it is lost, connect again and repeat the work.

        Raises `JournalUnavailable` if the work is still not done `RECONNECT_SECONDS` after it was first repeated.
        """
        first_lost: float | None = None
        while True:
            self.statements.release()
            try:
                with self._watched():
                    return await work(self._connection)
            except psycopg.errors.DeadlockDetected:
                continue
            except (psycopg.Error, OSError) as error:
                if not (is_lost(error) or self._connection.closed):
                    raise
                lost = time.monotonic()
                await self._reconnect()  # which ends the former session, so nothing is committed after an error
                first_lost = lost if first_lost is None else first_lost
                if lost > first_lost + RECONNECT_SECONDS:
                    raise journal_error(self._address, error) from error

    def cut_later(self) -> asyncio.TimerHandle:
        """Cut the connection in `COMMIT_SECONDS`, unless cancelled: the network may drop everything silently."""
        return asyncio.get_running_loop().call_later(COMMIT_SECONDS, cut, self._connection)

    async def close(self) -> None:
        """Close the connection."""
        self.statements.release()
        with suppress(psycopg.Error, OSError):
            await self._connection.close()

    @contextmanager
    def _watched(self) -> Generator[None]:
        timer = self.cut_later()
        try:
            yield
        finally:
            timer.cancel()

    async def _reconnect(self) -> None:
        """Connect again and take the locks back; raises `JournalUnavailable` after `RECONNECT_SECONDS`."""
        self._lost_at = self._lost_at or time.monotonic()
        pause = FIRST_PAUSE
        while True:
            cut(self._connection)
            await self.close()
            try:
                self._connection = await connect(self._address, self._name, drives=True)
                self.statements = PreparedStatements(self._connection)
                await self._take_locks_back()
                await self._compare_confirmed()
            except (psycopg.Error, OSError) as error:
                if time.monotonic() > self._lost_at + RECONNECT_SECONDS:
                    raise journal_error(self._address, error) from error
            else:
                self._lost_at = None
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _take_locks_back(self) -> None:
        with self._watched():
            # The former session may still live on the server, with its locks and an unfinished commit.
            await self._connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = %s AND usename = current_user AND pid <> pg_backend_pid()",
                (self._name,),
            )
            cursor = await self._connection.execute(
                "SELECT run FROM unnest(%s::text[], %s::bigint[]) AS locks (run, key)"
                " WHERE NOT pg_try_advisory_lock(key)",
                (list(self._locks), list(self._locks.values())),
            )
            for (run_id,) in await cursor.fetchall():
                self._stopped(run_id, fenced_out(run_id))

    async def _compare_confirmed(self) -> None:
        """Stop the runs whose last event is gone, or is another one: the server was replaced by one that knew less."""
        last = self._confirmed.values()
        with self._watched():
            cursor = await self._connection.execute(
                "SELECT run, number FROM unnest(%s::text[], %s::bigint[], %s::float8[]) AS last (run, number, time)"
                " WHERE NOT EXISTS (SELECT FROM events WHERE events.run = last.run AND events.number = last.number"
                " AND events.time = last.time)",
                ([one.run_id for one in last], [one.number for one in last], [one.time for one in last]),
            )
            for run_id, number in await cursor.fetchall():
                self._stopped(run_id, events_lost(run_id, number))


async def _try_lock(connection: Connection, key: int) -> bool:
    row = await (await connection.execute("SELECT pg_try_advisory_lock(%s)", (key,))).fetchone()
    return row is not None and bool(row[0])


async def _unlock(connection: Connection, key: int) -> None:
    await connection.execute("SELECT pg_advisory_unlock(%s)", (key,))
