"""Queues of runs: their names, entries and limits, and the connections of a process to their database.

DBOS and SQLAlchemy are imported when the first connection is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Condition
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from teamwright.agents.functions.threads import finish, run_to_completion
from teamwright.errors import JournalError, JournalUnavailable, MissingExtra, UsageError
from teamwright.journal.postgres.connection import DURABLE, DatabaseAddress, settings_of
from teamwright.journal.postgres.tenant_budgets import refused_budget
from teamwright.values.names import check_name

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy as sa
    from dbos import DBOSClient, Queue
    from sqlalchemy.exc import DBAPIError


APPLICATION: Final = "teamwright"
WORKFLOW: Final = "drive"
"""The name of the workflow that is one drive of a run."""
VERSION: Final = "1"
"""The version of that workflow, which all workers know; the versions of strategies are checked by the run itself."""
DEFAULT_QUEUE: Final = "default"
BRANCHES: Final = ".branches"
"""The end of the names of queues of child runs; no other queue may have it."""
MOST_PRIORITY: Final = 1_000_000


EntryState = Literal["queued", "claimed", "parked"]
T = TypeVar("T")
MOST_CONNECTIONS = 10
CLOSING_SECONDS = 5.0
"""How long closing waits for work that was cancelled: its thread goes on until the database has answered."""
"""The most connections of a process to the queue; each opens when it is needed first."""
POLL_SECONDS = 0.5
"""How often an idle worker looks for new drives; of most it is notified."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One run in a queue that has not ended. Times are in seconds since 1970, by the database's clock."""

    run_id: str
    queue: str
    state: EntryState
    priority: int = 0
    since: float = 0.0
    """When the run got its drive, or was submitted."""
    drive: str | None = None
    due: float | None = None
    """When a run without a drive gets one; `None`: when there is something to do for it."""
    reason: str = ""
    """Why a worker parked the run, where it could not go on there."""
    waits: bool = False
    """Whether the run waits for a worker that has what it needs."""


@dataclass(frozen=True, slots=True)
class ClaimedDrive:
    """A drive of a run that a worker has claimed, and has not ended."""

    id: str
    run_id: str
    worker: str


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The limits of one queue for the whole cluster; `None` is no limit."""

    name: str
    at_once: int | None = None
    per_minute: int | None = None


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """How many runs of one queue are in which state."""

    queue: str
    queued: int = 0
    claimed: int = 0
    parked: int = 0
    oldest: float | None = None
    """For how many seconds the run that has been waiting longest could have been claimed."""


def queue_schema(address: DatabaseAddress) -> str:
    """The schema of the queue's tables, in the database of the journal."""
    return f"{address.schema}_queue"


def worker_lock(worker_id: str) -> str:
    """The lock that a worker holds while it lives, among the driver locks of the journal; no run has such an id."""
    return f"cluster/worker/{worker_id}"


def queue_watch(queue: str) -> str:
    """What to watch, in place of the id of a run, for entries that are added to a queue; no run has such an id."""
    return f"cluster/queue/{queue}"


def branch_queue(queue: str) -> str:
    """The queue of the child runs that runs of a queue place on its workers. It needs room of its own: parents wait."""
    return f"{check_own_queue(queue)}{BRANCHES}"


def is_branch_queue(queue: str) -> bool:
    """Whether the runs of a queue are children of others."""
    return queue.endswith(BRANCHES)


def check_queue(name: str) -> str:
    """Return the name of a queue, or raise `UsageError`."""
    return check_name("queue", name)


def check_own_queue(name: str) -> str:
    """Return the name of a queue for runs that people submit, or raise `UsageError`."""
    if is_branch_queue(check_queue(name)):
        raise UsageError(f"The queue can't be {name!r}: names that end with {BRANCHES!r} are those of child runs.")
    return name


def check_priority(priority: int) -> int:
    """Return the priority of a run, or raise `UsageError`."""
    if not -MOST_PRIORITY < priority < MOST_PRIORITY:
        raise UsageError(
            f"The priority can't be {priority}: use a number between -{MOST_PRIORITY} and {MOST_PRIORITY}."
        )
    return priority


def stored_priority(priority: int, *, has_begun: bool) -> int:
    """The priority of a drive as DBOS stores it, where lower numbers come first.

    Of two runs with one priority, the one that has begun comes first: it was in the queue before.
    """
    return 2 * (MOST_PRIORITY - priority) + (0 if has_begun else 1)


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


class QueueDatabase:
    """The queue in the database of a journal. Methods wait in threads, since DBOS's own database is synchronous."""

    def __init__(self, address: DatabaseAddress, name: str = "teamwright-queue") -> None:
        self.address = address
        self.engine = _make_engine(address, name)
        self._opened: DBOSClient | None = None
        self._threads = 0
        self._is_idle = Condition()

    async def open(self) -> None:
        """Connect; create or upgrade the tables of DBOS first where needed. Those of the journal must exist.

        If this fails or is cancelled, no connection stays open.
        """
        try:
            await run_to_completion(self._open)
        except BaseException:
            await finish(self.close())
            raise

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
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        """Close all connections, after those that threads of cancelled work still have: they would stay open."""
        with self._is_idle:
            client, self._opened = self._opened, None
            self._is_idle.wait_for(lambda: not self._threads, CLOSING_SECONDS)
        if client is not None:
            client.destroy()
        self.engine.dispose()

    @contextmanager
    def _at_work(self) -> Generator[DBOSClient]:
        """The client, for the work of one thread, which `close` waits for."""
        with self._is_idle:
            if (client := self._opened) is None:
                raise JournalUnavailable(f"The queue in {self.address.shown} is not open: call open() before using it.")
            self._threads += 1
        try:
            yield client
        finally:
            with self._is_idle:
                self._threads -= 1
                self._is_idle.notify_all()

    async def run(self, work: Callable[[DBOSClient], T]) -> T:
        """Do work with the client in a thread; errors of the database and of DBOS become errors of the journal."""
        return await asyncio.to_thread(self.call, work)

    def call(self, work: Callable[[DBOSClient], T]) -> T:
        """Do work with the client; errors of the database and of DBOS become errors of the journal."""
        from dbos import error as dbos_errors
        from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

        try:
            with self._at_work() as client:
                return work(client)
        except (DataError, IntegrityError, dbos_errors.DBOSException) as error:
            raise JournalError(f"The queue in {self.address.shown} reports an error: {_text(error)}") from error
        except SQLAlchemyError as error:
            if isinstance(error, DBAPIError) and (refused := refused_budget(error.orig)) is not None:
                raise refused from error
            raise self.unavailable(error) from error

    def unavailable(self, error: BaseException) -> JournalUnavailable:
        return JournalUnavailable(f"The queue in {self.address.shown} can't be used: {_text(error)}")

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute a statement by itself, as part of the work of a `call`."""
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            result = connection.exec_driver_sql(statement, values)
            return [tuple(row) for row in result] if result.returns_rows else []


class Queues:
    """The queues of a cluster, by name, with their limits."""

    def __init__(self, database: QueueDatabase) -> None:
        self._database = database
        self._registered: set[str] = set()

    async def list(self) -> list[QueueLimits]:
        found = await self._database.run(lambda client: [*map(_limits_of, client.list_queues())])
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

        await self._database.run(work)

    async def register(self, queue: str) -> None:
        """Make a queue without limits, unless it exists."""
        await asyncio.to_thread(self.ensure, check_queue(queue))

    def ensure(self, queue: str) -> None:
        """Make a queue without limits, unless it exists; waits for the database."""
        if queue in self._registered:
            return
        self._database.call(
            lambda client: client.register_queue(queue, polling_interval_sec=POLL_SECONDS, on_conflict="never_update")
        )
        self._registered.add(queue)


def table_of(error: DBAPIError) -> str | None:
    """The table whose constraint a statement has violated."""
    import psycopg

    return error.orig.diag.table_name if isinstance(error.orig, psycopg.Error) else None


def _text(error: BaseException) -> str:
    return " ".join(str(getattr(error, "orig", None) or error).split())


def _limits_of(queue: Queue) -> QueueLimits:
    limiter = queue.limiter
    return QueueLimits(queue.name, queue.global_concurrency, None if limiter is None else limiter["limit"])
