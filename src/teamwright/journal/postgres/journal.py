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
import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from teamwright.errors import JournalError, JournalUnavailable
from teamwright.journal.postgres.budgets import PostgresBudgets
from teamwright.journal.postgres.connection import (
    CONNECT_SECONDS,
    Connection,
    DatabaseAddress,
    Notifications,
    Work,
    connect,
    is_lost,
    journal_error,
    make_durable,
    settings_of,
    translated_errors,
)
from teamwright.journal.postgres.driver_session import DriverSession
from teamwright.journal.postgres.layout import migrate
from teamwright.journal.postgres.paces import ModelPace, read_paces
from teamwright.journal.postgres.queries import (
    delete_runs,
    read_bodies,
    read_clock,
    read_driven,
    read_ended,
    read_events,
    read_inbox,
    read_last_items,
    read_summaries,
    restore_item,
    send_item,
)
from teamwright.journal.postgres.stores import PostgresNotes, PostgresSchedules, PostgresTokenRates, PostgresWorkers
from teamwright.journal.protocol import Batch, Committed, InboxItem, Journal, missing_bodies
from teamwright.journal.stores import Budgets, Notes, TokenRates
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.people.interventions import Intervention
from teamwright.values.results import RunSummary

T = TypeVar("T")
READERS = 4
"""The most connections for reading."""


class PostgresJournal(Journal):
    """Durable storage of runs in a database."""

    def __init__(self, url: str) -> None:
        self._address = DatabaseAddress.parse(url)
        self._name = f"teamwright-{uuid4().hex[:12]}"
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._opened_session: DriverSession | None = None
        self._notifications: Notifications | None = None

    @property
    def notes(self) -> Notes:
        """The notes that agents keep across runs."""
        return PostgresNotes(self._address, self._use)

    @property
    def token_rates(self) -> TokenRates:
        """What is known of the tokens of models."""
        return PostgresTokenRates(self._use)

    @property
    def budgets(self) -> Budgets:
        """The budgets of tenants across runs."""
        return PostgresBudgets(self._use)

    @property
    def schedules(self) -> PostgresSchedules:
        """The schedules of runs."""
        return PostgresSchedules(self._use)

    @property
    def workers(self) -> PostgresWorkers:
        """The workers that drive runs of this journal."""
        return PostgresWorkers(self._use)

    async def paces(self) -> list[ModelPace]:
        """Return how fast each model is called, by all processes together."""
        return await self._use(read_paces)

    async def open(self) -> None:
        """Connect; create or upgrade the tables first where needed."""
        with translated_errors(self._address):
            connection = await connect(self._address, self._name, drives=True)
            try:
                await migrate(connection, self._address)
                notifications = Notifications(self._address, self._name, self._notify)
                await notifications.open()
            except BaseException:
                await connection.close()
                raise
            self._pool = AsyncConnectionPool(
                self._address.url,
                kwargs=settings_of(self._address),
                configure=make_durable,
                min_size=0,
                max_size=READERS,
                timeout=CONNECT_SECONDS,
                open=False,
            )
            await self._pool.open()
        self._notifications = notifications
        self._opened_session = DriverSession(self._address, self._name, connection, notifications.announce)

    async def close(self) -> None:
        """Wait for pending commits, then close all connections."""
        session, self._opened_session = self._opened_session, None
        with anyio.CancelScope(shield=True):
            if session is not None:
                await session.close()
            notifications, self._notifications = self._notifications, None
            if notifications is not None:
                await notifications.close()
            pool, self._pool = self._pool, None
            if pool is not None:
                await pool.close()

    def append(self, batch: Batch, done: Committed) -> None:
        """Queue a batch for the session, which commits what has queued up as one group."""
        self._session.append(batch, done)

    @asynccontextmanager
    async def drive(self, run_id: str) -> AsyncGenerator[None]:
        """Hold the run's driver lock, which the database releases with the connection of this process."""
        session = self._session
        await session.lock(run_id)
        try:
            yield
        finally:
            await session.unlock(run_id)

    async def is_driven(self, run_id: str) -> bool:
        """Whether any process holds the run's driver lock now."""
        return bool(await self._use(lambda connection: read_driven(connection, self._address, [run_id])))

    async def now(self) -> float:
        """Return the time by the clock of the database, which all machines share, in seconds since 1970."""
        return await self._use(read_clock)

    @property
    def address(self) -> DatabaseAddress:
        """Where the tables of the journal are."""
        return self._address

    async def driven(self, run_ids: Collection[str]) -> set[str]:
        """Return those of these runs whose driver lock is held by any process."""
        return await self._use(lambda connection: read_driven(connection, self._address, list(run_ids)))

    async def summaries(self, run_ids: Collection[str]) -> dict[str, RunSummary]:
        """Return the summaries of those of these runs that exist."""
        return {one.id: one for one in await self._summaries("WHERE id = ANY(%s::text[])", list(run_ids))}

    async def last_inbox_items(self, run_ids: Collection[str]) -> dict[str, int]:
        """Return the id of the last inbox item of those of these runs that have one."""
        return await self._use(lambda connection: read_last_items(connection, list(run_ids)))

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        """Return the run's events with a number above `after`, in order, except the kinds in `without`."""
        return await self._use(lambda connection: read_events(connection, run_id, after, limit, without))

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        """Return the JSON text of each body."""
        wanted = set(hashes)
        found = await self._use(lambda connection: read_bodies(connection, wanted)) if wanted else {}
        if len(found) < len(wanted):
            raise missing_bodies(wanted - found.keys())
        return found

    async def runs(self, limit: int | None = None, *, conversation: str | None = None) -> list[RunSummary]:
        """Return the summaries of all runs, or of the turns of a conversation, newest first."""
        which: LiteralString = "" if conversation is None else "WHERE conversation <> ''"
        named: tuple[str, ...] = ()
        if conversation:
            which, named = "WHERE conversation <> '' AND conversation = %s", (conversation,)
        return await self._summaries(f"{which} ORDER BY place DESC LIMIT %s", *named, limit)

    async def children(self, run_ids: Collection[str]) -> list[RunSummary]:
        """Return the children of these runs, newest first."""
        which: LiteralString = "WHERE parent <> '' AND parent = ANY(%s::text[]) ORDER BY place DESC"
        return await self._summaries(which, list(run_ids))

    async def find(self, run_id: str) -> RunSummary | None:
        """Return the summary of a run, or None."""
        return next(iter(await self._summaries("WHERE id = %s", run_id)), None)

    async def _summaries(self, which: LiteralString, *parameters: str | int | list[str] | None) -> list[RunSummary]:
        return await self._use(lambda connection: read_summaries(connection, self._address, which, parameters))

    async def delete(self, run_ids: Collection[str]) -> int:
        """Delete runs and the bodies that only they refer to; return the number of bytes freed."""
        return await self._use(lambda connection: delete_runs(connection, self._address, run_ids))

    async def ended_before(self, seconds: float, limit: int) -> list[str]:
        """Return the oldest runs that are no children and ended more than `seconds` ago, by the database's clock."""
        return await self._use(lambda connection: read_ended(connection, seconds, limit))

    async def send(self, run_id: str, intervention: Intervention) -> None:
        """Add an intervention to a run's inbox, and notify its driver."""
        sending = uuid4().hex

        async def work(connection: Connection) -> None:
            await send_item(connection, self._address, run_id, intervention, self._name, sending)

        await self._use(work)
        self._hearing.wake()

    async def restore(self, item: InboxItem) -> None:
        """Add an inbox item of another journal under its id."""
        await self._use(lambda connection: restore_item(connection, item))

    async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
        """Return the run's inbox items with an id above `after`, in order."""
        return await self._use(lambda connection: read_inbox(connection, run_id, after))

    async def changed(self, every: float) -> None:
        """Wait until another process has committed, or this one has sent something.

        It is notified, so it polls less often than `every`.
        """
        del every
        await self._hearing.wait()

    def watching(self, run_id: str, wake: Callable[[], None]) -> AbstractContextManager[bool]:
        """Within this block, call `wake` when another process may have committed events of a run, or released it."""
        hearing = self._notifications
        return nullcontext(False) if hearing is None else hearing.watching(run_id, wake)

    async def _notify(self, channel: str, payload: str) -> None:
        async def work(connection: Connection) -> None:
            await connection.execute("SELECT pg_notify(%s, %s)", (channel, payload))

        await self._use(work)

    async def _use(self, work: Work[T]) -> T:
        """Do work with a connection of the pool; again if it was lost, as all of them may be after a restart."""
        pool = self._pool
        if pool is None:
            raise self._closed()
        for attempt in range(READERS + 1):
            try:
                async with pool.connection() as connection:
                    return await work(connection)
            except PoolTimeout as error:
                raise await self._refusal(error) from error
            except (psycopg.Error, OSError) as error:
                if attempt == READERS or not is_lost(error):
                    raise journal_error(self._address, error) from error
        raise AssertionError

    async def _refusal(self, error: PoolTimeout) -> JournalError:
        """The error of a pool that got no connection in time, which does not say why: the server does."""
        try:
            await (await connect(self._address, self._name)).close()
        except (psycopg.Error, OSError) as refusal:
            return journal_error(self._address, refusal)
        return journal_error(self._address, error)

    @property
    def _session(self) -> DriverSession:
        if self._opened_session is None:
            raise self._closed()
        return self._opened_session

    @property
    def _hearing(self) -> Notifications:
        if self._notifications is None:
            raise self._closed()
        return self._notifications

    def _closed(self) -> JournalUnavailable:
        return JournalUnavailable(f"The journal {self._address.shown} is not open: call open() before using it.")
