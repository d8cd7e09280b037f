"""The queue of runs, for every process: submits, lists, re-enqueues and parks entries. It drives nothing.

An entry is a DBOS workflow whose id is the run's id. What happened in a run is in its journal alone; an entry
only says whether a worker is to drive it: it is queued, claimed by a worker, parked until there is work, or done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from teamwright.cluster.queue.settings import (
    APPLICATION,
    DEFAULT_QUEUE,
    MOST_PRIORITY,
    NOW_MS,
    VERSION,
    WORKFLOW,
    check_queue,
    queue_schema,
    queue_watch,
    stored_priority,
)
from teamwright.errors import JournalError, JournalUnavailable, MissingExtra, UsageError
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.cluster.budgets import refused_budget
from teamwright.journal.postgres.connection import DURABLE, settings_of
from teamwright.journal.postgres.rows import first_commit
from teamwright.journal.protocol import Batch
from teamwright.values.results import FINAL
from teamwright.values.text.control_characters import visible

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy as sa
    from dbos import DBOSClient, Queue, WorkflowStatus

T = TypeVar("T")
EntryState = Literal["queued", "claimed", "parked"]
_STATES: dict[EntryState, list[str]] = {
    "queued": ["ENQUEUED", "DELAYED"],
    "claimed": ["PENDING"],
    "parked": ["CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"],
}
RETRY_AT = "retry_at"
REASON = "reason"
WAITS = "waits"
MOST_CONNECTIONS = 10
"""The most connections of a process to the queue; each opens when it is needed first."""
MOST_DELETED = 1000
"""The most entries that are deleted at a time."""
POLL_SECONDS = 0.5
"""How often an idle worker looks for new entries; of most it is notified."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One run in a queue. Times are in seconds since 1970, by the database's clock."""

    run_id: str
    queue: str
    state: EntryState
    priority: int = 0
    created: float = 0.0
    claimed: float | None = None
    """When a worker claimed the entry the last time."""
    worker: str = ""
    reason: str = ""
    """Why a worker parked the entry, where the run could not go on there."""
    waits: bool = False
    """Whether the run waits for a worker that has what it needs."""
    retry_at: float | None = None
    """When a worker tries a parked entry again."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of one queue for the whole cluster; `None` is no limit."""

    name: str
    at_once: int | None = None
    per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """How many entries of one queue are in which state; parked ones belong to no queue."""

    queue: str
    queued: int = 0
    claimed: int = 0
    parked: int = 0
    oldest: float | None = None
    """For how many seconds the entry that has been waiting longest could have been claimed."""


def _make_engine(address: DatabaseAddress, name: str) -> sa.Engine:
    """A pool of connections to the database of the journal, which notice a dead peer."""
    try:
        import sqlalchemy as sa
        from sqlalchemy.event import listen
    except ModuleNotFoundError as error:
        raise MissingExtra("cluster", "A queue with workers") from error
    settings = settings_of(address, name)
    del settings["autocommit"], settings["options"]
    url = sa.make_url(address.url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(
        url, connect_args=settings, pool_size=MOST_CONNECTIONS, max_overflow=0, pool_pre_ping=True
    )
    listen(engine, "connect", _make_durable)
    return engine


def _make_durable(connection: psycopg.Connection, _record: object) -> None:
    """Let each commit wait for the disk: a run that was submitted is not lost."""
    connection.execute(DURABLE)
    connection.commit()


class QueueClient:
    """Submits runs and changes entries of queues; methods wait in threads, since DBOS's own database is synchronous."""

    def __init__(self, address: DatabaseAddress, name: str = "teamwright-queue") -> None:
        self.address = address
        self.engine = _make_engine(address, name)
        self._opened: DBOSClient | None = None
        self._registered: set[str] = set()

    async def open(self) -> None:
        """Connect; create or upgrade the tables of the queue first where needed."""
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        from dbos import DBOS, DBOSClient, DBOSPortableJSONSerializer
        from sqlalchemy.exc import SQLAlchemyError

        schema = queue_schema(self.address)
        try:
            DBOS.migrate(self.engine.url.render_as_string(hide_password=False), schema=schema)
            self._opened = DBOSClient(
                system_database_engine=self.engine,
                dbos_system_schema=schema,
                serializer=DBOSPortableJSONSerializer(),
                application_name=APPLICATION,
                retry_connection_errors=False,
            )
        except SQLAlchemyError as error:
            raise self.unavailable(error) from error

    async def close(self) -> None:
        """Close all connections."""
        client, self._opened = self._opened, None
        if client is not None:
            await asyncio.to_thread(client.destroy)
        await asyncio.to_thread(self.engine.dispose)

    async def submit(self, batch: Batch, queue: str = DEFAULT_QUEUE, *, priority: int = 0, delay: float = 0.0) -> bool:
        """Commit the first batch of a run and its entry as one; returns False if there is a run of this id already."""
        return await asyncio.to_thread(self._submit, batch, check_queue(queue), stored_priority(priority), delay)

    def _submit(self, batch: Batch, queue: str, priority: int, delay: float) -> bool:
        from dbos import EnqueueOptions
        from dbos import error as dbos_errors
        from sqlalchemy.exc import IntegrityError

        statement, parameters = first_commit(batch)
        options = EnqueueOptions(
            workflow_name=WORKFLOW,
            queue_name=queue,
            workflow_id=batch.run_id,
            priority=priority,
            app_version=VERSION,
            workflow_id_reuse_policy="reject",
        )
        if delay > 0:
            options["delay_seconds"] = delay  # from the clock of this machine, which `_delay` corrects
        self._register(queue)
        added = f"queue {queue_watch(queue)}"

        def work(client: DBOSClient) -> None:
            with self.engine.begin() as connection:
                connection.exec_driver_sql(f'SET LOCAL search_path = "{self.address.schema}"')
                connection.exec_driver_sql(statement, tuple(parameters))
                client.enqueue_in_transaction(connection, options, batch.run_id, queue)
                if delay > 0:
                    connection.exec_driver_sql(self._delay, (delay, batch.run_id))
                connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (self.address.channel, added))

        try:
            self._call(work)
        except JournalError as error:
            if isinstance(error.__cause__, IntegrityError):
                return False
            if not isinstance(error.__cause__, dbos_errors.DBOSWorkflowIDInUseError):
                raise
            self._call(lambda client: client.delete_workflows([batch.run_id]))  # of a run that was deleted
            self._call(work)
        return True

    async def entries(self, *states: EntryState, queue: str | None = None) -> list[QueueEntry]:
        """Return the entries in these states, in the order in which they were submitted."""
        found = await asyncio.to_thread(self._entries, states, queue)
        return [one for one in found if queue is None or one.queue == queue]

    async def find(self, run_id: str) -> QueueEntry | None:
        """Return the entry of a run; `None` if there is none, or if it is done."""
        found = await asyncio.to_thread(self._entries, tuple(_STATES), None, [run_id])
        return next(iter(found), None)

    def _entries(
        self, states: Sequence[EntryState], queue: str | None, run_ids: list[str] | None = None
    ) -> list[QueueEntry]:
        found = self._call(
            lambda client: client.list_workflows(
                workflow_ids=run_ids,
                name=WORKFLOW,
                status=[one for state in states for one in _STATES[state]],
                queue_name=queue if "parked" not in states else None,  # a parked entry has no queue there
                load_output=False,
            )
        )
        return [_entry_of(one) for one in found]

    async def load(self) -> list[QueueLoad]:
        """Return how many entries of runs that go on each queue has, by name: one statement, however many there are."""
        return await asyncio.to_thread(self._call, lambda _: self._load())

    def _load(self) -> list[QueueLoad]:
        statement = f"""
            SELECT coalesce(queue_name, ''), count(*) FILTER (WHERE status = ANY(%s)),
                count(*) FILTER (WHERE status = ANY(%s)), count(*) FILTER (WHERE status = ANY(%s)),
                extract(epoch FROM now())::float8 - min(greatest(updated_at, delay_until_epoch_ms))
                    FILTER (WHERE status = 'ENQUEUED') / 1000.0::float8
            FROM "{queue_schema(self.address)}".workflow_status
            WHERE name = %s AND status = ANY(%s) AND {self._is_open} GROUP BY 1 ORDER BY 1
        """
        states = [_STATES[state] for state in ("queued", "claimed", "parked")]
        values = (*states, WORKFLOW, [one for state in states for one in state], list(FINAL))
        with self.engine.connect() as connection:
            return [QueueLoad(*row) for row in connection.exec_driver_sql(statement, values)]

    @property
    def _is_open(self) -> str:
        """The condition that the run of an entry exists and has not ended; its parameter: the final statuses."""
        runs = f'"{self.address.schema}".runs'
        return f"EXISTS (SELECT FROM {runs} AS run WHERE id = workflow_uuid AND (run.status = ANY(%s)) IS NOT TRUE)"

    @property
    def _delay(self) -> str:
        """The statement that delays an entry by the clock of the database; its parameters: seconds, and the run."""
        entries = f'"{queue_schema(self.address)}".workflow_status'
        return f"UPDATE {entries} SET delay_until_epoch_ms = {NOW_MS} + (%s * 1000)::bigint WHERE workflow_uuid = %s"

    def begin_delayed(self) -> None:
        """Let entries be claimed whose delay is over by the clock of the database."""
        entries = f'"{queue_schema(self.address)}".workflow_status'
        with self.engine.begin() as connection:
            connection.exec_driver_sql(
                f"UPDATE {entries} SET status = 'ENQUEUED' WHERE status = 'DELAYED' AND name = %s"
                f" AND delay_until_epoch_ms <= {NOW_MS}",
                (WORKFLOW,),
            )

    def _now(self) -> float:
        """The time by the clock of the database."""
        with self.engine.connect() as connection:
            return connection.exec_driver_sql(f"SELECT {NOW_MS}").scalar_one() / 1000

    async def requeue(self, entry: QueueEntry) -> None:
        """Put an entry back into its queue, at its former place, whatever became of its worker."""
        await asyncio.to_thread(self._call, lambda client: client.resume_workflow(entry.run_id, queue_name=entry.queue))

    async def park(
        self, run_id: str, reason: str = "", retry_after: float | None = None, *, waits: bool = False
    ) -> None:
        """Take an entry out of its queue until there is something to do for its run, or for `retry_after` seconds.

        One that `waits` goes back when a worker has what it needs.
        """

        def work(client: DBOSClient) -> None:
            retry_at = None if retry_after is None else self._now() + retry_after
            attributes = {REASON: visible(reason), RETRY_AT: retry_at, WAITS: waits}
            client.update_workflow_attributes(run_id, attributes)
            client.cancel_workflow(run_id)

        await asyncio.to_thread(self._call, work)

    async def delete(self, run_ids: Sequence[str]) -> None:
        """Delete entries of runs that have ended or were deleted."""
        await asyncio.to_thread(self._call, lambda client: client.delete_workflows(list(run_ids)))

    async def delete_ended(self) -> bool:
        """Delete entries that wait although their run has ended or was deleted; returns whether there may be more."""
        return await asyncio.to_thread(self._call, lambda _: self._delete_ended())

    def _delete_ended(self) -> bool:
        """Delete them in one statement, so that no worker claims one of them meanwhile."""
        schema = queue_schema(self.address)
        statement = f"""
            WITH ended AS (
                SELECT workflow_uuid FROM "{schema}".workflow_status
                WHERE name = %s AND status = ANY(%s) AND NOT {self._is_open} LIMIT %s FOR UPDATE SKIP LOCKED
            ), inputs AS (
                DELETE FROM "{schema}".workflow_input WHERE workflow_uuid IN (SELECT workflow_uuid FROM ended)
            )
            DELETE FROM "{schema}".workflow_status WHERE workflow_uuid IN (SELECT workflow_uuid FROM ended)
        """
        values = (WORKFLOW, [*_STATES["queued"], *_STATES["parked"]], list(FINAL), MOST_DELETED)
        with self.engine.begin() as connection:
            return connection.exec_driver_sql(statement, values).rowcount == MOST_DELETED

    async def delete_done(self, seconds: float) -> bool:
        """Delete entries that have been done for so many seconds; returns whether there may be more of them."""

        def work(client: DBOSClient) -> bool:
            until = datetime.fromtimestamp(self._now() - seconds, UTC).isoformat()
            done = client.list_workflows(
                name=WORKFLOW, status="SUCCESS", completed_before=until, limit=MOST_DELETED, load_input=False,
                load_output=False,
            )  # fmt: skip
            client.delete_workflows([one.workflow_id for one in done])
            return len(done) == MOST_DELETED

        return await asyncio.to_thread(self._call, work)

    async def queues(self) -> list[QueueLimits]:
        """Return all queues with their limits, by name."""
        found = await asyncio.to_thread(self._call, lambda client: [*map(_limits_of, client.list_queues())])
        return sorted(found, key=lambda one: one.name)

    async def limit(self, limits: QueueLimits) -> None:
        """Set the limits of a queue, for the whole cluster; a queue that does not exist is made."""
        name = check_queue(limits.name)
        for value in (limits.at_once, limits.per_minute):
            if value is not None and value < 1:
                raise UsageError(f"A limit of the queue {name!r} can't be {value}; use 1 or more, or none.")

        def work(client: DBOSClient) -> None:
            client.register_queue(
                name,
                global_concurrency=limits.at_once,
                limiter=None if limits.per_minute is None else {"limit": limits.per_minute, "period": 60.0},
                polling_interval_sec=POLL_SECONDS,
            )

        await asyncio.to_thread(self._call, work)

    async def register(self, queue: str) -> None:
        """Make a queue without limits, unless it exists."""
        await asyncio.to_thread(self._register, check_queue(queue))

    def _register(self, queue: str) -> None:
        if queue in self._registered:
            return
        self._call(
            lambda client: client.register_queue(queue, polling_interval_sec=POLL_SECONDS, on_conflict="never_update")
        )
        self._registered.add(queue)

    def _call(self, work: Callable[[DBOSClient], T]) -> T:
        """Do work with the client; errors of the database and of DBOS become errors of the journal."""
        from dbos import error as dbos_errors
        from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

        if self._opened is None:
            raise JournalUnavailable(f"The queue in {self.address.shown} is not open: call open() before using it.")
        try:
            return work(self._opened)
        except (DataError, IntegrityError, dbos_errors.DBOSException) as error:
            raise JournalError(f"The queue in {self.address.shown} reports an error: {_text(error)}") from error
        except SQLAlchemyError as error:
            if isinstance(error, DBAPIError) and (refused := refused_budget(error.orig)) is not None:
                raise refused from error
            raise self.unavailable(error) from error

    def unavailable(self, error: BaseException) -> JournalUnavailable:
        """The error in words of a queue that can't be used."""
        return JournalUnavailable(f"The queue in {self.address.shown} can't be used: {_text(error)}")


def _text(error: BaseException) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _entry_of(found: WorkflowStatus) -> QueueEntry:
    arguments = found.input["args"] if found.input is not None else ()
    attributes = found.attributes or {}
    state: EntryState = next(state for state, names in _STATES.items() if found.status in names)
    return QueueEntry(
        run_id=found.workflow_id,
        queue=str(arguments[1]) if len(arguments) > 1 else DEFAULT_QUEUE,
        state=state,
        priority=MOST_PRIORITY - (found.priority or 0),
        created=(found.created_at or 0) / 1000,
        claimed=None if found.dequeued_at is None else found.dequeued_at / 1000,
        worker=(found.executor_id or "") if state == "claimed" else "",
        reason=str(attributes.get(REASON) or "") if state == "parked" else "",
        waits=state == "parked" and attributes.get(WAITS) is True,
        retry_at=attributes.get(RETRY_AT) if state == "parked" else None,
    )


def _limits_of(queue: Queue) -> QueueLimits:
    limiter = queue.limiter
    return QueueLimits(queue.name, queue.global_concurrency, None if limiter is None else limiter["limit"])
