"""The session of this process as a driver: it commits batches in groups, over the connection that holds driver locks.

After a lost connection it repeats what may not have been committed; a run that another process has taken over meanwhile
is fenced out, and one whose events the database has lost stops.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import TypeVar

import psycopg

from teamwright.errors import EventsLost, FencedOut, JournalError, JournalUnavailable
from teamwright.journal.postgres.connection import (
    Connection,
    DatabaseAddress,
    is_lost,
    journal_error,
    translated_errors,
)
from teamwright.journal.postgres.driver_connection import (
    HEARTBEAT_SECONDS,
    DriverConnection,
    PreparedStatements,
    Statement,
)
from teamwright.journal.postgres.rows import DrivenRun, commit_statement, read_events, read_run
from teamwright.journal.postgres.tenant_budgets import refused_budget
from teamwright.journal.protocol import Batch, Committed, RunStatus, events_lost, fenced_out, missing_source

T = TypeVar("T")

LARGEST_GROUP = 500
"""The most batches of one commit."""

QueueItem = tuple[Batch, Committed] | Callable[[], Awaitable[None]]
"""A batch to commit, or other work, which must not raise."""


class DriverSession:
    """Processes batches and other work in order."""

    def __init__(
        self, address: DatabaseAddress, name: str, connection: Connection, committed: Callable[[Collection[str]], None]
    ) -> None:
        """Take over an open connection with this unique name; `committed` gets the runs of each commit.

        It also gets each run that is released.
        """
        self._address, self._committed = address, committed
        self._failed: dict[str, JournalError] = {}
        self._connection = DriverConnection(address, name, connection, self._failed.setdefault)
        self._queue: deque[QueueItem] = deque()
        self._arrived = asyncio.Event()
        self._is_closing = self._is_busy = False
        self._runs: dict[str, DrivenRun] = {}
        self._task = asyncio.create_task(self._serve(), name="journal driver session")
        self._task.add_done_callback(lambda _: self._fail_queued())

    def append(self, batch: Batch, done: Committed) -> None:
        """Commit a batch after those queued before."""
        if batch.alone and self._start_now(batch, done):
            return
        self._enqueue((batch, done))

    async def lock(self, run_id: str) -> None:
        """Take the driver lock of a run; raises `RunIsLive` if any process holds it."""
        is_taken = False

        async def take() -> None:
            nonlocal is_taken
            await self._connection.lock(run_id)
            is_taken = True
            self._failed.pop(run_id, None)
            self._runs.pop(run_id, None)

        async def give_back() -> None:
            if is_taken:
                await self._unlock(run_id)

        try:
            await self._in_turn(take)
        except asyncio.CancelledError:
            self._enqueue(give_back)  # the lock may be about to be taken
            raise

    async def unlock(self, run_id: str) -> None:
        if not self._is_closing:
            with suppress(JournalUnavailable):  # the session has ended, and its locks with it
                await asyncio.shield(self._in_turn(lambda: self._unlock(run_id)))

    async def _unlock(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        with suppress(JournalError), translated_errors(self._address):  # without a connection, there is no lock
            await self._connection.unlock(run_id)
            self._committed((run_id,))

    async def close(self) -> None:
        """Process what is queued, then close the connection."""
        self._is_closing = True
        self._arrived.set()
        await asyncio.wait((self._task,))
        await self._connection.close()

    def _enqueue(self, item: QueueItem) -> None:
        self._queue.append(item)
        self._arrived.set()
        if self._task.done():
            self._fail_queued()

    def _fail_queued(self) -> None:
        """Fail batches that this session commits no more, because it was cancelled with its event loop."""
        while self._queue:
            item = self._queue.popleft()
            if not callable(item):
                _report(item[1], self._fail(item[0], _ended()))

    async def _in_turn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait until other work was done, after what is queued; raises its error."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            if future.done():  # its caller was cancelled
                return
            error: Exception | None = None
            try:
                with translated_errors(self._address):
                    await work()
            except Exception as raised:  # noqa: BLE001 - it is raised in the caller
                error = raised
            if not future.done():
                future.set_result(None) if error is None else future.set_exception(error)

        self._enqueue(run)
        try:
            await asyncio.wait((future, self._task), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            future.cancel()
            raise
        if not future.done():
            raise _ended()
        future.result()

    def _start_now(self, batch: Batch, done: Committed) -> bool:
        """Send a batch to the server at once; return whether it was possible.

        A run that waits for one commit after the other goes this way, without turns of the event loop in between. What
        fails is repeated in the queue, which knows what to do about it.
        """
        run = self._runs.get(batch.run_id)
        if run is None or self._is_busy or self._queue or self._is_closing or batch.run_id in self._failed:
            return False
        if self._task.done():
            return False
        try:
            statement = commit_statement([batch], {batch.run_id: run}, self._connection.holds)
        except Exception:  # noqa: BLE001 - the queue finds it as well, and reports it
            del self._runs[batch.run_id]
            return False
        statements = self._connection.statements
        if not statements.is_prepared(statement):
            self._enqueue(lambda: self._commit_statement(batch, statement, done, may_be_recorded=False))
            return True
        timer = self._connection.cut_later()

        def finished(error: psycopg.Error | None) -> None:
            timer.cancel()
            self._is_busy = False
            if error is None:
                self._confirm((batch,))
                _report(done, None)
            else:
                may_be_recorded = is_lost(error)
                self._queue.appendleft(
                    lambda: self._commit_statement(batch, statement, done, may_be_recorded=may_be_recorded)
                )
            if self._queue or self._is_closing:
                self._arrived.set()

        self._is_busy = True
        try:
            statements.start(statement, finished)
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

    async def _process(self, item: QueueItem) -> None:
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
        if self._connection.holds_any and not self._is_busy:
            self._is_busy = True
            with suppress(JournalError), translated_errors(self._address):
                await self._connection.use(_ask_for_nothing)
            self._is_busy = False

    async def _commit_group(self, batches: Sequence[Batch]) -> Sequence[BaseException | None]:
        """Commit a group of batches and return the error of each; a batch that can't be stored fails alone."""
        may_be_recorded = False
        if len(batches) > 1 and not any(batch.run_id in self._failed or batch.source for batch in batches):
            try:
                await self._commit(batches)
            except JournalUnavailable as error:
                return [self._fail(batch, error) for batch in batches]
            except (FencedOut, EventsLost):  # after a lost connection, one of the runs can't go on here
                may_be_recorded = True
            except Exception:  # noqa: BLE001 - one of the batches is invalid: commit them one by one
                pass
            else:
                return [None] * len(batches)
        return [await self._commit_alone(batch, may_be_recorded) for batch in batches]

    async def _commit_alone(self, batch: Batch, may_be_recorded: bool) -> JournalError | None:
        if batch.run_id in self._failed:
            return self._failed[batch.run_id]
        return await self._outcome(batch, self._commit([batch], may_be_recorded))

    async def _commit_statement(
        self, batch: Batch, statement: Statement, done: Committed, may_be_recorded: bool
    ) -> None:
        """Commit a batch whose statement was made to be sent at once, and perhaps was."""
        _report(done, await self._outcome(batch, self._insert([batch], statement, may_be_recorded)))

    async def _outcome(self, batch: Batch, work: Awaitable[None]) -> JournalError | None:
        """Wait for the commit of one batch, and return the error for its run."""
        try:
            await work
        except psycopg.errors.UniqueViolation:
            return self._fail(batch, fenced_out(batch.run_id))
        except psycopg.errors.NotNullViolation:  # the first event has no number, since its predecessor is gone
            return self._fail(batch, events_lost(batch.run_id, batch.events[0].number - 1))
        except JournalError as error:
            return self._fail(batch, error)
        except psycopg.Error as error:
            return self._fail(batch, refused_budget(error) or journal_error(self._address, error))
        except Exception as error:  # noqa: BLE001 - the run gets the error, and the session goes on
            return self._fail(batch, JournalError(f"The events of run {batch.run_id!r} can't be recorded: {error}"))
        return None

    def _fail(self, batch: Batch, failure: JournalError) -> JournalError:
        """Fail further batches of the run until its driver lock is acquired again, so that its record has no gap."""
        return self._failed.setdefault(batch.run_id, failure)

    async def _commit(self, batches: Sequence[Batch], may_be_recorded: bool = False) -> None:
        """Commit batches atomically: their events and bodies and, where due, the status of their runs."""
        try:
            runs = {run_id: await self._run_of(run_id) for run_id in dict.fromkeys(batch.run_id for batch in batches)}
            statement = commit_statement(batches, runs, self._connection.holds)
        except BaseException:
            self._forget(batches)
            raise
        await self._insert(batches, statement, may_be_recorded)

    def _forget(self, batches: Sequence[Batch]) -> None:
        """Read the runs of these batches again when they are needed: their cached state may be wrong."""
        for batch in batches:
            self._runs.pop(batch.run_id, None)

    async def _run_of(self, run_id: str) -> DrivenRun:
        """The cached state of a run. A run that is not driven here may change elsewhere, so it is not cached."""
        run = self._runs.get(run_id)
        if run is None:
            found = await self._connection.use(lambda connection: read_run(connection, run_id))
            run = DrivenRun(*found) if found is not None else DrivenRun(RunStatus(), [], is_new=True)
            if self._connection.holds(run_id):
                self._runs[run_id] = run
        return run

    async def _insert(self, batches: Sequence[Batch], statement: Statement, may_be_recorded: bool) -> None:
        """Insert the rows. After a lost connection they are inserted again, unless they are there already."""
        source = batches[0].source

        async def insert(connection: Connection) -> None:
            nonlocal may_be_recorded
            is_repeated, may_be_recorded = may_be_recorded, True
            if is_repeated:
                self._require_locks(batches)
                if await _is_recorded(connection, batches[0]):  # and so are the others: they are one commit
                    self._forget(batches)
                    return
            if source is None:
                await self._connection.statements.execute(statement)
            else:
                await _insert_fork(connection, self._connection.statements, source, statement)

        try:
            await self._connection.use(insert)
        except BaseException:
            self._forget(batches)
            raise
        self._confirm(batches)

    def _confirm(self, batches: Sequence[Batch]) -> None:
        """Take in that the database has committed batches."""
        for batch in batches:
            self._connection.confirm(batch.events[-1])
        self._committed({batch.run_id for batch in batches})

    def _require_locks(self, batches: Sequence[Batch]) -> None:
        """Raise the error of one of the runs that can't go on here since there was no connection."""
        for batch in batches:
            if batch.run_id in self._failed:
                raise self._failed[batch.run_id]


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


async def _ask_for_nothing(connection: Connection) -> None:
    await connection.execute("SELECT 1")


def _ended() -> JournalUnavailable:
    return JournalUnavailable("The event loop of the journal is ending: resume the run in another one.")


def _report(done: Committed, result: BaseException | None) -> None:
    try:
        done(result)
    except Exception as error:  # noqa: BLE001 - one callback's error must not block the others
        problem = {"message": "a journal's callback failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(problem)
