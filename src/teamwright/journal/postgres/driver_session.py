"""The session of this process as a driver: one connection that commits batches in groups and holds driver locks.

A driver whose connection is lost has lost its locks as well. It connects again, takes the locks back and repeats what
may not have been committed; a run that another process has taken over meanwhile is fenced out.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg

from teamwright.errors import JournalError, JournalUnavailable, RunIsLive
from teamwright.journal.errors import fenced_out, missing_source
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.cluster.budgets import refused_budget
from teamwright.journal.postgres.connection import (
    COMMIT_SECONDS,
    HEARTBEAT_SECONDS,
    SILENCE_SECONDS,
    Connection,
    Work,
    connect,
    cut,
    is_lost,
    journal_error,
)
from teamwright.journal.postgres.driven_run import DrivenRun
from teamwright.journal.postgres.queries import read_events, read_run
from teamwright.journal.postgres.rows import CommitRows, small_statement
from teamwright.journal.postgres.statements import PreparedStatements, Statement
from teamwright.journal.protocol import Batch, Committed
from teamwright.journal.run_status import RunStatus

T = TypeVar("T")

RECONNECT_SECONDS = 60.0
"""How long it tries to connect again before the runs of this process stop; they can be resumed."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
LARGEST_GROUP = 500
"""The most batches of one commit."""


class DriverSession:
    """Processes batches and other work in order."""

    def __init__(
        self, address: DatabaseAddress, name: str, connection: Connection, committed: Callable[[Collection[str]], None]
    ) -> None:
        """Take over an open connection with this unique name; `committed` gets the runs of each commit.

        It also gets each run that is released.
        """
        self._address, self._name, self._connection, self._committed = address, name, connection, committed
        self._statements = PreparedStatements(connection)
        self._lost_at: float | None = None
        self._queue: deque[tuple[Batch, Committed] | Callable[[], Awaitable[None]]] = deque()
        self._arrived = asyncio.Event()
        self._is_closing = self._is_busy = False
        self._held: dict[str, int] = {}
        self._runs: dict[str, DrivenRun] = {}
        self._failed: dict[str, JournalError] = {}
        self._task = asyncio.create_task(self._serve(), name="journal driver session")

    def append(self, batch: Batch, done: Committed) -> None:
        """Commit a batch after those queued before."""
        if batch.alone and self._start_now(batch, done):
            return
        self._queue.append((batch, done))
        self._arrived.set()

    async def call(self, work: Work[T]) -> T:
        """Do other work on the connection, in its turn, and return its result."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                result = await self._on_connection(work)
            except BaseException as error:  # noqa: BLE001 - it is raised in the caller
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self._queue.append(run)
        self._arrived.set()
        return await future

    async def lock(self, run_id: str) -> None:
        """Take the driver lock of a run; raises `RunIsLive` if any process holds it."""
        if run_id in self._held:
            raise RunIsLive(run_id)
        key = self._address.lock_key(run_id)
        self._held[run_id] = key
        try:
            if not await self.call(lambda connection: _try_lock(connection, key)):
                raise RunIsLive(run_id)
        except BaseException:
            self._held.pop(run_id, None)
            raise
        self._failed.pop(run_id, None)
        self._runs.pop(run_id, None)

    async def unlock(self, run_id: str) -> None:
        """Release the driver lock of a run."""
        key = self._held.pop(run_id, None)
        self._runs.pop(run_id, None)
        if key is not None and not self._is_closing:
            with suppress(JournalError):  # with the connection, the lock is gone as well
                await asyncio.shield(self.call(lambda connection: _unlock(connection, key)))
                self._committed((run_id,))

    def holds(self, run_id: str) -> bool:
        """Whether this process drives a run."""
        return run_id in self._held

    async def close(self) -> None:
        """Process what is queued, then close the connection."""
        self._is_closing = True
        self._arrived.set()
        await asyncio.shield(self._task)
        self._statements.release()
        await self._connection.close()

    def _start_now(self, batch: Batch, done: Committed) -> bool:
        """Send a batch to the server at once; return whether it was possible.

        A run that waits for one commit after the other goes this way, without turns of the event loop in between. What
        fails is repeated in the queue, which knows what to do about it.
        """
        run = self._runs.get(batch.run_id)
        if run is None or self._is_busy or self._queue or self._is_closing or batch.run_id in self._failed:
            return False
        try:
            statement = self._statement([batch], {batch.run_id: run})
        except ValueError:
            del self._runs[batch.run_id]
            return False
        if not self._statements.is_prepared(statement):
            self._queue.append(lambda: self._repeat(batch, statement, done))
            self._arrived.set()
            return True
        timer = asyncio.get_running_loop().call_later(COMMIT_SECONDS, cut, self._connection)

        def finished(error: psycopg.Error | None) -> None:
            timer.cancel()
            self._is_busy = False
            if error is None:
                self._committed((batch.run_id,))
                _report(done, None)
            else:
                self._queue.appendleft(lambda: self._repeat(batch, statement, done))
            if self._queue or self._is_closing:
                self._arrived.set()

        self._is_busy = True
        try:
            self._statements.start(statement, finished)
        except psycopg.Error as error:
            finished(error)
        return True

    async def _serve(self) -> None:
        while True:
            if not self._queue or self._is_busy:
                if self._is_closing and not self._is_busy:
                    return
                self._arrived.clear()
                try:
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        await self._arrived.wait()
                except TimeoutError:
                    await self._beat()
                continue
            self._is_busy = True
            await self._process(self._queue.popleft())
            self._is_busy = False

    async def _process(self, item: tuple[Batch, Committed] | Callable[[], Awaitable[None]]) -> None:
        """Do one thing of the queue; a batch takes those behind it along."""
        if callable(item):
            await item()
            return
        group = [item]
        while self._queue and len(group) < LARGEST_GROUP and not callable(self._queue[0]):
            group.append(self._queue.popleft())  # pyright: ignore[reportArgumentType] - not callable
        results = await self._commit_group([batch for batch, _ in group])
        for (_, done), result in zip(group, results, strict=True):
            _report(done, result)

    async def _beat(self) -> None:
        """Show the server that this process lives; a connection that was lost is replaced."""
        if self._held and not self._is_busy:
            self._is_busy = True
            with suppress(JournalError):
                await self._on_connection(_ask_for_nothing)
            self._is_busy = False

    async def _commit_group(self, batches: Sequence[Batch]) -> Sequence[BaseException | None]:
        """Commit a group of batches and return the error of each; a batch that can't be stored fails alone."""
        if len(batches) > 1 and not any(batch.run_id in self._failed or batch.source for batch in batches):
            try:
                await self._commit(batches)
            except JournalUnavailable as error:
                return [self._fail(batch, error) for batch in batches]
            except (psycopg.Error, JournalError, ValueError, OverflowError):
                pass  # one of the batches is invalid: commit them one by one
            else:
                return [None] * len(batches)
        return [await self._commit_alone(batch) for batch in batches]

    async def _commit_alone(self, batch: Batch) -> JournalError | None:
        if batch.run_id in self._failed:
            return self._failed[batch.run_id]
        return await self._outcome(batch, self._commit([batch]))

    async def _repeat(self, batch: Batch, statement: Statement, done: Committed) -> None:
        """Commit a batch whose first attempt failed, or may have failed."""
        _report(done, await self._outcome(batch, self._insert([batch], statement)))

    async def _outcome(self, batch: Batch, work: Awaitable[None]) -> JournalError | None:
        """Wait for the commit of one batch, and return the error for its run."""
        try:
            await work
        except psycopg.errors.UniqueViolation:
            return self._fail(batch, fenced_out(batch.run_id))
        except JournalError as error:
            return self._fail(batch, error)
        except psycopg.Error as error:
            return self._fail(batch, refused_budget(error) or journal_error(self._address, error))
        except (ValueError, OverflowError) as error:
            return self._fail(batch, JournalError(f"The events of run {batch.run_id!r} can't be recorded: {error}"))
        return None

    def _fail(self, batch: Batch, failure: JournalError) -> JournalError:
        """Fail further batches of the run until its driver lock is acquired again, so that its record has no gap."""
        return self._failed.setdefault(batch.run_id, failure)

    async def _commit(self, batches: Sequence[Batch]) -> None:
        """Commit batches atomically: their events and bodies and, where due, the status of their runs."""
        try:
            runs = {run_id: await self._run_of(run_id) for run_id in dict.fromkeys(batch.run_id for batch in batches)}
            statement = self._statement(batches, runs)
        except BaseException:
            self._forget(batches)
            raise
        await self._insert(batches, statement)

    def _statement(self, batches: Sequence[Batch], runs: Mapping[str, DrivenRun]) -> Statement:
        """The statement that inserts batches of these runs, which take them in."""
        if len(batches) == 1 and (small := self._small_statement(batches[0], runs[batches[0].run_id])) is not None:
            return small
        rows = CommitRows()
        due: set[str] = set()
        for batch in batches:
            run = runs[batch.run_id]
            if self._saves_status(batch, run):
                due.add(batch.run_id)
            run.add(batch, rows.add(batch, run.bodies))
        for run_id in due:
            rows.save(run_id, runs[run_id].save())
        return rows.statement()

    def _small_statement(self, batch: Batch, run: DrivenRun) -> Statement | None:
        if self._saves_status(batch, run) or (found := small_statement(batch, run.bodies)) is None:
            return None
        statement, used = found
        run.add(batch, used)
        return statement

    def _saves_status(self, batch: Batch, run: DrivenRun) -> bool:
        return run.is_due(batch.events) or batch.run_id not in self._held

    def _forget(self, batches: Sequence[Batch]) -> None:
        """Read the runs of these batches again when they are needed: their cached state may be wrong."""
        for batch in batches:
            self._runs.pop(batch.run_id, None)

    async def _run_of(self, run_id: str) -> DrivenRun:
        """The cached state of a run. A run that is not driven here may change elsewhere, so it is not cached."""
        run = self._runs.get(run_id)
        if run is None:
            found = await self._on_connection(lambda connection: read_run(connection, run_id))
            run = DrivenRun(*found) if found is not None else DrivenRun(RunStatus(), [], is_new=True)
            if run_id in self._held:
                self._runs[run_id] = run
        return run

    async def _insert(self, batches: Sequence[Batch], statement: Statement) -> None:
        """Insert the rows. After a lost connection they are inserted again, unless they are there already."""
        source = batches[0].source
        attempts = 0

        async def insert(connection: Connection) -> None:
            nonlocal attempts
            attempts += 1
            if attempts > 1:
                self._require_locks(batches)
            try:
                if source is None:
                    await self._statements.execute(statement)
                else:
                    await _insert_fork(connection, self._statements, source, statement)
            except psycopg.errors.UniqueViolation:
                if attempts == 1 or not await _is_recorded(connection, batches[0]):
                    raise

        try:
            await self._on_connection(insert)
        except BaseException:
            self._forget(batches)
            raise
        self._committed({batch.run_id for batch in batches})

    def _require_locks(self, batches: Sequence[Batch]) -> None:
        """Raise `FencedOut` if another process has taken over one of the runs while there was no connection."""
        for batch in batches:
            if batch.run_id in self._failed:
                raise self._failed[batch.run_id]

    async def _on_connection(self, work: Work[T]) -> T:
        """Do work on the connection; where it is lost, connect again and repeat the work."""
        while True:
            self._statements.release()
            try:
                with _watched(self._connection):
                    return await work(self._connection)
            except (psycopg.Error, OSError) as error:
                if not (is_lost(error) or self._connection.closed):
                    if not isinstance(error, psycopg.errors.DeadlockDetected):
                        raise
                    continue
            await self._reconnect()

    async def _reconnect(self) -> None:
        """Connect again and take the locks back; raises `JournalUnavailable` after `RECONNECT_SECONDS`."""
        self._statements.release()
        cut(self._connection)
        with suppress(psycopg.Error, OSError):
            await self._connection.close()
        self._lost_at = self._lost_at or time.monotonic()
        pause = FIRST_PAUSE
        while True:
            try:
                self._connection = await connect(self._address, self._name, silence=SILENCE_SECONDS)
                self._statements = PreparedStatements(self._connection)
                await self._take_locks_back()
            except (psycopg.Error, OSError) as error:
                if time.monotonic() > self._lost_at + RECONNECT_SECONDS:
                    raise journal_error(self._address, error) from error
            else:
                self._lost_at = None
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _take_locks_back(self) -> None:
        """Take the driver locks again; a run that another process drives now is fenced out."""
        with _watched(self._connection):
            # The former session may still live on the server, with its locks and an unfinished commit.
            await self._connection.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = %s AND usename = current_user AND pid <> pg_backend_pid()",
                (self._name,),
            )
            for run_id, key in list(self._held.items()):
                if not await _try_lock(self._connection, key):
                    self._failed.setdefault(run_id, fenced_out(run_id))


async def _insert_fork(
    connection: Connection, statements: PreparedStatements, source: str, statement: Statement
) -> None:
    """Insert events that refer to bodies of the run `source`, which can't be deleted meanwhile."""
    async with connection.transaction():
        await connection.execute("LOCK TABLE bodies IN ROW EXCLUSIVE MODE")
        cursor = await connection.execute("SELECT 1 FROM runs WHERE id = %s FOR KEY SHARE", (source,))
        if await cursor.fetchone() is None:
            raise missing_source(source)
        await statements.execute(statement)


async def _is_recorded(connection: Connection, batch: Batch) -> bool:
    """Whether the events of a batch are in the database, exactly as they are here."""
    first, last = batch.events[0].number, batch.events[-1].number
    found = await read_events(connection, batch.run_id, first - 1, last - first + 1)
    return found == list(batch.events)


async def _try_lock(connection: Connection, key: int) -> bool:
    row = await (await connection.execute("SELECT pg_try_advisory_lock(%s)", (key,))).fetchone()
    return row is not None and bool(row[0])


async def _unlock(connection: Connection, key: int) -> None:
    await connection.execute("SELECT pg_advisory_unlock(%s)", (key,))


async def _ask_for_nothing(connection: Connection) -> None:
    await connection.execute("SELECT 1")


@contextmanager
def _watched(connection: Connection) -> Generator[None]:
    """Cut the connection if what happens in this block takes too long: the network may drop everything silently."""
    timer = asyncio.get_running_loop().call_later(COMMIT_SECONDS, cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _report(done: Committed, result: BaseException | None) -> None:
    try:
        done(result)
    except Exception as error:  # noqa: BLE001 - one callback's error must not block the others
        problem = {"message": "a journal's callback failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(problem)
