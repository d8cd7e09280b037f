"""The connection of a driver session, which holds the driver locks of its runs; one that is lost is replaced.

With a connection its locks are lost, and it is unknown whether its last statement was executed. So the next connection
first ends the former session on the server, then takes the locks back, then looks whether what was confirmed is still
there, and then the work is repeated.

Its prepared statements are executed by libpq itself. For each statement psycopg builds a cursor, adapts every parameter
and sets up a wait, which takes longer than Postgres takes for the commit. Here parameters are bytes already, and a
reply is one callback of the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple, TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import ConnStatus, ExecStatus

from teamwright.errors import JournalError, RunIsLive
from teamwright.journal.postgres.connection import (
    Connection,
    DatabaseAddress,
    Work,
    connect,
    cut,
    is_lost,
    journal_error,
)
from teamwright.journal.protocol import events_lost, fenced_out
from teamwright.values.events.event import Event

T = TypeVar("T")

COMMIT_SECONDS: Final = 15.0
"""How long a statement of a driver may take before its connection counts as lost."""
SESSION_SILENCE_SECONDS: Final = 30
"""The server ends a driver's session, and with it its locks, that was silent for so long."""
HEARTBEAT_SECONDS: Final = 8.0
"""How long a driver is silent at most while it works."""
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
        return run_id in self._locks

    def confirm(self, event: Event) -> None:
        """Remember the last event of a run that the database has confirmed, if the lock of the run is held here."""
        if event.run_id in self._locks:
            self._confirmed[event.run_id] = event

    @property
    def holds_any(self) -> bool:
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
                self._connection = await connect_driver(self._address, self._name)
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


async def connect_driver(address: DatabaseAddress, name: str) -> Connection:
    """Open a connection that holds driver locks, until the server has not heard from it for too long."""
    return await connect(address, name, silence=SESSION_SILENCE_SECONDS)


async def _try_lock(connection: Connection, key: int) -> bool:
    row = await (await connection.execute("SELECT pg_try_advisory_lock(%s)", (key,))).fetchone()
    return row is not None and bool(row[0])


async def _unlock(connection: Connection, key: int) -> None:
    await connection.execute("SELECT pg_advisory_unlock(%s)", (key,))


_SUCCESS: Final = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)

Finished = Callable[[psycopg.Error | None], None]
"""Called when a statement has ended, with its error if it has failed."""


class Statement(NamedTuple):
    """A statement with its parameters; a format is 0 for text and 1 for the bytes of a text column as they are.

    A text parameter ends at a NUL, so each text that others wrote is sent as bytes: Postgres rejects a NUL there.
    """

    text: str
    parameters: Sequence[bytes | None]
    formats: Sequence[int]


class PreparedStatements:
    """The prepared statements of one connection. One is executed at a time."""

    def __init__(self, connection: Connection) -> None:
        self._line = connection.pgconn
        self._names: dict[str, bytes] = {}
        self._finished: Finished | None = None
        self._failure: psycopg.Error | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._socket = -1

    def is_prepared(self, statement: Statement) -> bool:
        """Whether `start` can execute this statement: it was executed before."""
        return statement.text in self._names

    async def execute(self, statement: Statement) -> None:
        """Execute a statement, which is prepared first if it is new; its rows are not returned."""
        try:
            name = self._names.get(statement.text)
            if name is None:
                name = b"teamwright_%d" % len(self._names)
                self._line.send_prepare(name, statement.text.encode())
                await self._reply()
                self._names[statement.text] = name
            self._line.send_query_prepared(name, statement.parameters, statement.formats)
            await self._reply()
        finally:
            self.release()

    def start(self, statement: Statement, finished: Finished) -> None:
        """Send a statement that is prepared, and call `finished` when it has ended."""
        self._line.send_query_prepared(self._names[statement.text], statement.parameters, statement.formats)
        self._wait(finished)

    def release(self) -> None:
        """Leave the socket to psycopg, which is about to use the connection."""
        if self._loop is not None:
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._loop = None

    async def _reply(self) -> None:
        reply: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finished(error: psycopg.Error | None) -> None:
            if not reply.done():
                reply.set_result(None) if error is None else reply.set_exception(error)

        self._wait(finished)
        try:
            await reply
        except asyncio.CancelledError:
            self._break()  # what the server still sends would be taken for the reply to another statement
            raise

    def _wait(self, finished: Finished) -> None:
        """Watch the socket. It stays watched after the reply, because most statements are followed by another one."""
        self._finished = finished
        if self._loop is None:
            self._loop, self._socket = asyncio.get_running_loop(), self._line.socket
            self._loop.add_reader(self._socket, self._receive)
        if self._flush():
            self._loop.add_writer(self._socket, self._send)

    def _send(self) -> None:
        if not self._flush() and self._loop is not None:
            self._loop.remove_writer(self._socket)

    def _flush(self) -> bool:
        """Send what the socket takes; return whether there is more to send."""
        try:
            return self._line.flush() > 0
        except psycopg.Error as error:
            self._end(error)
            return False

    def _receive(self) -> None:
        """Read what the server has sent; it ends the statement if the reply is complete."""
        line = self._line
        if self._finished is None:  # nothing was asked: the server has ended the session, which the next use notices
            self.release()
            return
        try:
            line.consume_input()
            while True:
                if line.is_busy():  # reading on would block: the rest of the reply is still to come
                    return
                if (result := line.get_result()) is None:
                    break
                if result.status not in _SUCCESS:
                    self._failure = self._failure or errors.error_from_result(result)
            if self._failure is not None and line.status == ConnStatus.BAD:
                raise psycopg.OperationalError(str(self._failure))
        except psycopg.Error as error:
            self._end(error)
            return
        finished, self._finished = self._finished, None
        failure, self._failure = self._failure, None
        finished(failure)

    def _end(self, error: psycopg.Error) -> None:
        """Report that the connection has failed."""
        finished = self._finished
        self._break()
        if finished is not None:
            finished(error)

    def _break(self) -> None:
        self._finished = self._failure = None
        self.release()
        self._line.finish()
