"""The queue of runs, for every process: submits runs, gives them drives, parks and lists them. It drives nothing.

A drive of a run is one DBOS workflow: the first, one after each answer, and one after each take-over. What happened in
a run is in its journal alone, and `queued_runs` says whether it has a drive. A run that waits for something has none.
Two drives of one run do no harm: the driver lock of the journal lets one of them begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from teamwright.cluster.queue_database import (
    DEFAULT_QUEUE,
    VERSION,
    WORKFLOW,
    ClaimedDrive,
    EntryState,
    QueueDatabase,
    QueueEntry,
    QueueLoad,
    Queues,
    check_priority,
    check_queue,
    queue_watch,
    stored_priority,
    table_of,
)
from teamwright.errors import JournalError
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.journal.postgres.rows import first_commit
from teamwright.journal.protocol import Batch
from teamwright.values.text.display import visible
from teamwright.values.turns.results import FINAL

if TYPE_CHECKING:
    from dbos import DBOSClient, EnqueueOptions, WorkflowStatus

NOW = "extract(epoch FROM clock_timestamp())::float8"
"""The time in SQL. The clock of the database alone counts: those of machines differ."""
_IS_PARKED = "(due IS NULL OR reason <> '' OR waits)"
"""The condition in SQL that a run without a drive is not about to get one."""
MOST_DELETED = 1000
"""The most entries that are deleted at a time."""
ADOPT_SECONDS = 10.0
"""How long a drive for one worker alone waits for it."""


class QueueClient:
    """Submits runs and changes entries of queues, over the connections of `database`; `queues` lists the queues."""

    def __init__(self, address: DatabaseAddress, name: str = "teamwright-queue") -> None:
        self.address = address
        self.database = QueueDatabase(address, name)
        self.queues = Queues(self.database)
        self._table = f'"{address.schema}".queued_runs'
        self._runs = f'"{address.schema}".runs'
        self._open_runs = (
            f"{self._table} AS entry JOIN {self._runs} AS runs ON runs.id = entry.run AND {_is_open('runs')}"
        )
        """The entries of runs that exist and have not ended; its parameter: the final statuses."""

    async def open(self) -> None:
        """Connect; create or upgrade the tables of DBOS first where needed. Those of the journal must exist."""
        await self.database.open()

    async def close(self) -> None:
        await self.database.close()

    def _has_ended(self, run_id: str) -> str:
        """The condition that the run of a column has ended or was deleted; its parameter: the final statuses."""
        return f"NOT EXISTS (SELECT FROM {self._runs} AS other WHERE other.id = {run_id} AND {_is_open('other')})"

    async def submit(self, batch: Batch, queue: str = DEFAULT_QUEUE, *, priority: int = 0, delay: float = 0.0) -> bool:
        """Commit the first batch of a run and its first drive as one; returns False if there is a run of this id.

        With a `delay` in seconds, the run gets its first drive after it.
        """
        return await asyncio.to_thread(self._submit, batch, check_queue(queue), check_priority(priority), delay)

    def _submit(self, batch: Batch, queue: str, priority: int, delay: float) -> bool:
        from dbos import error as dbos_errors
        from sqlalchemy.exc import IntegrityError

        run_id, drive = batch.run_id, None if delay > 0 else _new_drive(batch.run_id)
        first, parameters = first_commit(batch)
        entry = f"""
            WITH entry AS (
                INSERT INTO {self._table} (run, queue, priority, drive, due) VALUES (%s, %s, %s, %s, {NOW} + %s)
            ) SELECT pg_notify(%s, %s)
        """
        values = (run_id, queue, priority, drive, delay if delay > 0 else None, *self._added(queue))
        self.queues.ensure(queue)

        def work(client: DBOSClient) -> None:
            with self.database.engine.begin() as connection:
                connection.exec_driver_sql(f'SET LOCAL search_path = "{self.address.schema}"')
                connection.exec_driver_sql(first, tuple(parameters))
                connection.exec_driver_sql(entry, values)
                if drive is not None:
                    options = _options(drive, run_id, queue, stored_priority(priority, has_begun=False))
                    client.enqueue_in_transaction(connection, options, run_id, queue)

        try:
            self.database.call(work)
        except JournalError as error:
            cause = error.__cause__
            if isinstance(cause, IntegrityError):
                if table_of(cause) != "queued_runs":
                    return False
            elif not isinstance(cause, dbos_errors.DBOSQueueDeduplicatedError):
                raise
            self.database.call(lambda client: self._forget(client, run_id))  # what is left of a run that was deleted
            self.database.call(work)
        return True

    def _added(self, queue: str) -> tuple[str, str]:
        """What to notify, and of what, when a drive is added to a queue."""
        return self.address.channel, f"queue {queue_watch(queue)}"

    def _forget(self, client: DBOSClient, run_id: str) -> None:
        """Cancel the drives of a run, and delete its entry."""
        drives = client.list_workflows(
            workflow_id_prefix=f"{run_id}/", status=["ENQUEUED", "PENDING"], load_input=False, load_output=False
        )
        client.cancel_workflows([one.workflow_id for one in drives])
        self.database.execute(f"DELETE FROM {self._table} WHERE run = %s", run_id)

    async def drives(self) -> list[ClaimedDrive]:
        return await self.database.run(self._drives)

    def _drives(self, client: DBOSClient) -> list[ClaimedDrive]:
        found = client.list_workflows(name=WORKFLOW, status="PENDING", load_input=False, load_output=False)
        return [_drive_of(one) for one in found]

    async def entries(self, *states: EntryState) -> list[QueueEntry]:
        """Return the entries in these states: by priority, and then those first that got their drive first."""
        found = await self.database.run(lambda client: self._entries(client, "TRUE"))
        return [one for one in found if one.state in states]

    async def find(self, run_id: str) -> QueueEntry | None:
        """Return the entry of a run; `None` if it is in no queue, or has ended."""
        found = await self.database.run(lambda client: self._entries(client, "run = %s", run_id))
        return next(iter(found), None)

    def _entries(self, client: DBOSClient, where: str, *values: str) -> list[QueueEntry]:
        rows = self.database.execute(
            "SELECT run, queue, priority, entry.since, drive, due, reason, waits"
            f" FROM {self._open_runs} WHERE {where} ORDER BY priority DESC, entry.since",
            list(FINAL),
            *values,
        )
        claimed = {one.id for one in self._drives(client)} if any(row[4] for row in rows) else set[str]()
        return [_entry_of(row, claimed) for row in rows]

    async def to_enqueue(self) -> list[QueueEntry]:
        """Return the entries of open runs that have no drive, without those that are due later.

        Beside them are those whose drive one worker alone may claim, which had time to do so.
        """
        where = f"(drive IS NULL OR worker <> '') AND CASE WHEN drive IS NULL THEN coalesce(due, 0) <= {NOW}"
        where = f"{where} ELSE entry.since <= {NOW} - {ADOPT_SECONDS} END"
        return await self.database.run(lambda client: self._entries(client, where))

    async def load(self) -> list[QueueLoad]:
        """Return how many runs that go on each queue has, by name: two statements, however many there are."""
        return await self.database.run(self._load)

    def _load(self, client: DBOSClient) -> list[QueueLoad]:
        statement = f"""
            SELECT queue, count(*) FILTER (WHERE state = 'queued'), count(*) FILTER (WHERE state = 'claimed'),
                count(*) FILTER (WHERE state = 'parked'),
                {NOW} - min(since) FILTER (WHERE state = 'queued' AND (due IS NULL OR due <= {NOW}))
            FROM (
                SELECT queue, greatest(entry.since, due) AS since, due,
                    CASE WHEN drive = ANY(%s) THEN 'claimed' WHEN drive IS NULL AND {_IS_PARKED} THEN 'parked'
                    ELSE 'queued' END AS state
                FROM {self._open_runs}
            ) AS entries GROUP BY 1 ORDER BY 1
        """
        claimed = [one.id for one in self._drives(client)]
        return [QueueLoad(*row) for row in self.database.execute(statement, claimed, list(FINAL))]

    async def orphans(self) -> list[str]:
        """Return the open child runs whose parent has ended or was deleted."""
        has_no_parent = self._has_ended("runs.parent")
        statement = f"SELECT run FROM {self._open_runs} WHERE runs.parent <> '' AND {has_no_parent}"
        found = await self.database.run(lambda _: self.database.execute(statement, list(FINAL), list(FINAL)))
        return [row[0] for row in found]

    async def enqueue(self, entry: QueueEntry, worker: str = "") -> str | None:
        """Give a run without a drive a new one, which `worker` alone may claim if it is given.

        Returns the drive, or `None` where another process was first. Runs that were in the queue before come before
        others of their priority.
        """
        return await self.database.run(lambda client: self._give_drive(client, entry, worker))

    def _give_drive(self, client: DBOSClient, entry: QueueEntry, worker: str) -> str | None:
        from dbos import error as dbos_errors

        drive = _new_drive(entry.run_id)
        options = _options(drive, entry.run_id, entry.queue, stored_priority(entry.priority, has_begun=True))
        if worker:
            options["app_version"] = worker
        forget = "" if worker else ", due = NULL, reason = '', waits = false"
        statement = (
            f"UPDATE {self._table} SET drive = %s, worker = %s, since = {NOW}{forget} WHERE run = %s AND drive IS NULL"
        )
        try:
            with self.database.engine.begin() as connection:
                if connection.exec_driver_sql(statement, (drive, worker, entry.run_id)).rowcount == 0:
                    return None
                client.enqueue_in_transaction(connection, options, entry.run_id, entry.queue)
                connection.exec_driver_sql("SELECT pg_notify(%s, %s)", self._added(entry.queue))
        except dbos_errors.DBOSQueueDeduplicatedError:
            return None  # a drive from before is about to begin or to end; the next look sees what became of it
        return drive

    async def park(
        self, run_id: str, reason: str = "", retry_after: float | None = None, *, waits: bool = False, drive: str = ""
    ) -> bool:
        """Take its drive from a run, until there is something to do for it, or for `retry_after` seconds.

        One that `waits` goes on when a worker has what it needs. A worker names its own `drive`, which then ends by
        itself; returns False if the run has another one by now.
        """
        is_own = "TRUE" if not drive else "coalesce(former.drive, %s) = %s"
        statement = f"""
            UPDATE {self._table} AS entry SET drive = NULL, worker = '', due = {NOW} + %s, reason = %s, waits = %s
            FROM (SELECT run, drive FROM {self._table} WHERE run = %s FOR UPDATE) AS former
            WHERE entry.run = former.run AND {is_own} RETURNING former.drive
        """
        values = (retry_after, visible(reason), waits, run_id, *((drive, drive) if drive else ()))

        def work(client: DBOSClient) -> bool:
            former = self.database.execute(statement, *values)
            if former and (other := former[0][0]) is not None and other != drive:
                client.cancel_workflow(other)
            return bool(former)

        return await self.database.run(work)

    async def take_over(self, dead: ClaimedDrive) -> None:
        """Cancel the drive of a dead worker, and give its run a new one.

        The run has no drive in between. So if this process dies as well, others find the run.
        """
        statement = (
            f"UPDATE {self._table} SET drive = NULL, worker = '', due = {NOW}, reason = '', waits = false"
            " WHERE run = %s AND drive = %s RETURNING run"
        )

        def work(client: DBOSClient) -> None:
            has_run = self.database.execute(statement, dead.run_id, dead.id)
            client.cancel_workflow(dead.id)
            for entry in self._entries(client, "run = %s AND drive IS NULL", dead.run_id) if has_run else ():
                self._give_drive(client, entry, "")

        await self.database.run(work)

    async def release(self, drives: Sequence[str]) -> None:
        """Cancel drives that one worker alone may claim: their runs wait again for one that has what they need."""

        def work(client: DBOSClient) -> None:
            update = f"UPDATE {self._table} SET drive = NULL, worker = '' WHERE drive = ANY(%s)"
            self.database.execute(update, list(drives))
            client.cancel_workflows(list(drives))

        await self.database.run(work)

    async def delete_ended(self) -> bool:
        """Delete entries and drives of runs that ended or were deleted; returns whether there may be more of them."""
        return await self.database.run(self._delete_ended)

    def _delete_ended(self, client: DBOSClient) -> bool:
        has_ended, final = self._has_ended("run"), list(FINAL)
        select = f"SELECT run, drive FROM {self._table} WHERE {has_ended} LIMIT %s"
        ended = self.database.execute(select, final, MOST_DELETED)
        claimed = {one.id for one in self._drives(client)} if ended else set[str]()
        if left := [drive for _, drive in ended if drive is not None and drive not in claimed]:
            client.cancel_workflows(left)  # those that have ended stay as they are
        if ended:
            delete = f"DELETE FROM {self._table} WHERE run = ANY(%s) AND {has_ended}"
            self.database.execute(delete, [run_id for run_id, _ in ended], final)
        return len(ended) == MOST_DELETED

    async def delete_done(self, seconds: float) -> bool:
        """Delete drives that ended so many seconds ago; returns whether there may be more of them."""

        def work(client: DBOSClient) -> bool:
            now = float(self.database.execute(f"SELECT {NOW}")[0][0])
            done = client.list_workflows(
                name=WORKFLOW, status=["SUCCESS", "ERROR", "CANCELLED"], limit=MOST_DELETED, load_input=False,
                completed_before=datetime.fromtimestamp(now - seconds, UTC).isoformat(), load_output=False,
            )  # fmt: skip
            client.delete_workflows([one.workflow_id for one in done])
            return len(done) == MOST_DELETED

        return await self.database.run(work)


@asynccontextmanager
async def opened_queue(address: DatabaseAddress) -> AsyncGenerator[QueueClient]:
    """Open a client of the queue within the block."""
    client = QueueClient(address)
    await client.open()
    try:
        yield client
    finally:
        await client.close()


def _is_open(runs: str) -> str:
    """The condition that a run has not ended; its parameter: the final statuses."""
    return f"({runs}.status = ANY(%s)) IS NOT TRUE"


def _new_drive(run_id: str) -> str:
    """A new id of a drive; no id of a run has a slash."""
    return f"{run_id}/{uuid4().hex[:12]}"


def _options(drive: str, run_id: str, queue: str, priority: int) -> EnqueueOptions:
    """A drive as DBOS enqueues it: a queue has one at most that has not ended for each run."""
    from dbos import EnqueueOptions

    return EnqueueOptions(
        workflow_name=WORKFLOW,
        queue_name=queue,
        workflow_id=drive,
        deduplication_id=run_id,
        priority=priority,
        app_version=VERSION,
    )


def _drive_of(found: WorkflowStatus) -> ClaimedDrive:
    return ClaimedDrive(found.workflow_id, found.workflow_id.rpartition("/")[0], found.executor_id or "")


def _entry_of(row: tuple[Any, ...], claimed: Collection[str]) -> QueueEntry:
    run_id, queue, priority, since, drive, due, reason, waits = row
    if drive is None:
        state: EntryState = "parked" if due is None or reason or waits else "queued"
    else:
        state = "claimed" if drive in claimed else "queued"
    return QueueEntry(run_id, queue, state, priority, since, drive, due, reason, waits)
