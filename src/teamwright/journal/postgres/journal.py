"""The journal in a Postgres database, which processes of several machines share.

The driver's part uses one connection, which also holds the driver locks; reads use a small pool; a third connection
hears what other processes have committed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import LiteralString, TypeVar
from uuid import uuid4

import anyio

from teamwright.journal.agent_notes import Notes
from teamwright.journal.postgres.agent_notes import PostgresNotes
from teamwright.journal.postgres.cluster_tables import ClusterTables
from teamwright.journal.postgres.connection import (
    Connection,
    ConnectionPool,
    DatabaseAddress,
    Notifications,
    UseConnection,
    connect,
    not_open,
    translated_errors,
)
from teamwright.journal.postgres.driver_session import DriverSession
from teamwright.journal.postgres.layout import migrate
from teamwright.journal.postgres.rows import (
    delete_runs,
    read_bodies,
    read_driven,
    read_events,
    read_inbox,
    read_summaries,
    restore_item,
    send_item,
)
from teamwright.journal.postgres.tenant_budgets import PostgresBudgets
from teamwright.journal.protocol import Batch, Committed, InboxItem, Journal, TokenRates, missing_bodies
from teamwright.journal.run_filter import ALL_RUNS, RecentRuns, RunFilter
from teamwright.journal.tenant_budgets import Budgets
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event
from teamwright.values.people import Intervention
from teamwright.values.turns.results import FINAL, RunSummary

T = TypeVar("T")
OPEN_RUNS: LiteralString = "WHERE status IS NULL OR status IN ('interrupted', 'paused', 'queued') ORDER BY place DESC"
"""The clauses that select the runs that have not ended."""


class PostgresJournal(Journal):
    """Durable storage of runs in a database."""

    def __init__(self, url: str) -> None:
        self._address = DatabaseAddress.parse(url)
        self._name = f"teamwright-{uuid4().hex[:12]}"
        self._pool = ConnectionPool(self._address, self._name)
        self._driver: DriverSession | None = None
        self._notifications: Notifications | None = None

    @property
    def notes(self) -> Notes:
        return PostgresNotes(self._address, self._pool.use)

    @property
    def token_rates(self) -> TokenRates:
        return PostgresTokenRates(self._pool.use)

    @property
    def budgets(self) -> Budgets:
        return PostgresBudgets(self._pool.use)

    @property
    def cluster(self) -> ClusterTables:
        """What the processes of a cluster share beside the runs, and ask about many runs at once."""
        return ClusterTables(self._address, self._pool.use)

    async def open(self) -> None:
        """Connect; create or upgrade the tables first where needed."""
        with translated_errors(self._address):
            connection = await connect(self._address, self._name, drives=True)
            try:
                await migrate(connection, self._address)
                notifications = Notifications(self._address, self._name, self._pool.notify)
                await notifications.open()
            except BaseException:
                await connection.close()
                raise
            await self._pool.open()
        self._notifications = notifications
        self._driver = DriverSession(self._address, self._name, connection, notifications.announce)

    async def close(self) -> None:
        session, self._driver = self._driver, None
        with anyio.CancelScope(shield=True):
            if session is not None:
                await session.close()
            notifications, self._notifications = self._notifications, None
            if notifications is not None:
                await notifications.close()
            await self._pool.close()

    def append(self, batch: Batch, done: Committed) -> None:
        """Queue a batch for the session, which commits what has queued up as one group."""
        _opened(self._driver, self._address).append(batch, done)

    @asynccontextmanager
    async def drive(self, run_id: str) -> AsyncGenerator[None]:
        """Hold the run's driver lock, which the database releases with the connection of this process."""
        session = _opened(self._driver, self._address)
        await session.lock(run_id)
        try:
            yield
        finally:
            await session.unlock(run_id)

    async def is_driven(self, run_id: str) -> bool:
        return bool(await self._pool.use(lambda connection: read_driven(connection, self._address, [run_id])))

    @property
    def address(self) -> DatabaseAddress:
        return self._address

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        return await self._pool.use(lambda connection: read_events(connection, run_id, after, limit, without))

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        wanted = set(hashes)
        found = await self._pool.use(lambda connection: read_bodies(connection, wanted)) if wanted else {}
        if len(found) < len(wanted):
            raise missing_bodies(wanted - found.keys())
        return found

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        which: LiteralString = "" if conversation is None else "WHERE conversation <> ''"
        named: tuple[str, ...] = ()
        if conversation:
            which, named = "WHERE conversation <> '' AND conversation = %s", (conversation,)
        return await _summaries(self._pool, self._address, f"{which} ORDER BY place DESC LIMIT %s", *named, limit)

    async def children(self, run_ids: Collection[str]) -> list[RunSummary]:
        which: LiteralString = "WHERE parent <> '' AND parent = ANY(%s::text[]) ORDER BY place DESC"
        return await _summaries(self._pool, self._address, which, list(run_ids))

    async def top_runs(self, limit: int | None = None, which: RunFilter | RecentRuns = ALL_RUNS) -> list[RunSummary]:
        clauses, parameters = which.clauses(limit)
        found = await _summaries(self._pool, self._address, clauses.replace("?", "%s"), *parameters)
        return [run for run in found if which.matches(run)][:limit]

    async def count_recent(self, which: RecentRuns) -> int:
        clauses, parameters = which.count_clauses()
        statement: LiteralString = "SELECT count(*) FROM runs " + clauses.replace("?", "%s")

        async def work(connection: Connection) -> int:
            row = await (await connection.execute(statement, parameters)).fetchone()
            return 0 if row is None else row[0]

        return await self._pool.use(work)

    async def open_runs(self) -> list[RunSummary]:
        """Return the runs that have not ended, newest first; a row may lag behind its events, but never ends early."""
        return [one for one in await _summaries(self._pool, self._address, OPEN_RUNS) if one.status not in FINAL]

    async def find(self, run_id: str) -> RunSummary | None:
        """Return the summary of a run, or None."""
        return next(iter(await _summaries(self._pool, self._address, "WHERE id = %s", run_id)), None)

    async def delete(self, run_ids: Collection[str]) -> int:
        return await self._pool.use(lambda connection: delete_runs(connection, self._address, run_ids))

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Add an intervention to a run's inbox, and notify its driver."""
        sending = uuid4().hex

        async def work(connection: Connection) -> None:
            await send_item(connection, self._address, run_id, intervention, self._name, sending)

        await self._pool.use(work)
        _opened(self._notifications, self._address).wake()

    async def restore(self, item: InboxItem) -> None:
        await self._pool.use(lambda connection: restore_item(connection, item))

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        return await self._pool.use(lambda connection: read_inbox(connection, run_id, after))

    async def changed(self, every: float) -> None:
        """Wait until another process has committed, or this one has sent something.

        It is notified, so it polls less often than `every`.
        """
        del every
        await _opened(self._notifications, self._address).wait()

    def watching(self, run_id: str, wake: Callable[[], None]) -> AbstractContextManager[bool]:
        hearing = self._notifications
        return nullcontext(False) if hearing is None else hearing.watching(run_id, wake)


def _opened(part: T | None, address: DatabaseAddress) -> T:
    """A part of the journal that is there while the journal is open."""
    if part is None:
        raise not_open(address)
    return part


class PostgresTokenRates:
    """The rates of one journal."""

    def __init__(self, use: UseConnection) -> None:
        self._use = use

    async def load(self, model: str) -> str | None:

        async def work(connection: Connection) -> str | None:
            cursor = await connection.execute("SELECT samples FROM token_rates WHERE model = %s", (model,))
            row = await cursor.fetchone()
            return None if row is None else row[0]

        return await self._use(work)

    async def save(self, model: str, samples: str) -> None:

        async def work(connection: Connection) -> None:
            await connection.execute(
                "INSERT INTO token_rates VALUES (%s, %s) ON CONFLICT (model) DO UPDATE SET samples = excluded.samples",
                (model, samples),
            )

        await self._use(work)


async def _summaries(
    pool: ConnectionPool, address: DatabaseAddress, which: LiteralString, *parameters: str | float | list[str] | None
) -> list[RunSummary]:
    return await pool.use(lambda connection: read_summaries(connection, address, which, parameters))
