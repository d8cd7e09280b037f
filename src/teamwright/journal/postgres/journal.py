"""The journal in a Postgres database, which processes of several machines share; its tables, and the migrations that
create and change them.

The driver's part uses one connection, which also holds the driver locks; reads use a small pool; a third connection
hears what other processes have committed. A minor version of the layout only adds tables, columns with defaults, and
indexes, so programs of an older minor version continue to work beside newer ones. A major version changes what is
there: older programs refuse it. A released migration is never edited; the next one corrects it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import LiteralString, NamedTuple, TypeVar
from uuid import uuid4

import anyio
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from teamwright.errors import JournalTooNew
from teamwright.journal.agent_notes import Note, Notes, rank_notes
from teamwright.journal.postgres.cluster_tables import QUEUE_TABLES, SCHEDULE_TABLES, WORKER_TABLES, ClusterTables
from teamwright.journal.postgres.connection import (
    Connection,
    ConnectionPool,
    DatabaseAddress,
    Notifications,
    UseConnection,
    not_open,
    translated_errors,
)
from teamwright.journal.postgres.driver_connection import connect_driver
from teamwright.journal.postgres.driver_session import DriverSession
from teamwright.journal.postgres.rate_limits import PACE_TABLES
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
from teamwright.journal.postgres.tenant_budgets import BUDGET_TABLES, PostgresBudgets
from teamwright.journal.protocol import Batch, Committed, InboxItem, Journal, TokenRates, missing_bodies
from teamwright.journal.run_filter import ALL_RUNS, RecentRuns, RunFilter
from teamwright.journal.tenant_budgets import Budgets
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event
from teamwright.values.people import Intervention
from teamwright.values.turns.results import FINAL, RunSummary

TOKEN_RATE_TABLES: LiteralString = """
    -- The latest requests to a model that its tokens per byte are learnt from.
    CREATE TABLE token_rates (model text PRIMARY KEY, samples text NOT NULL);
"""


class Version(NamedTuple):
    """The version of a layout."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Migration(NamedTuple):
    """The statements that lead to a version from the one before."""

    version: Version
    statements: LiteralString


_RUN_TABLES: LiteralString = """
    -- A run's row is its status at event `number`; its later events complete the status. `place` orders the runs.
    CREATE TABLE runs (
        id text PRIMARY KEY, place bigint GENERATED ALWAYS AS IDENTITY, number bigint NOT NULL, team text NOT NULL,
        started float8, status text, stop_reason text, tokens bigint NOT NULL, usd float8, seconds float8 NOT NULL,
        since float8, last float8, conversation text NOT NULL, parent text NOT NULL, driver text NOT NULL
    );
    CREATE UNIQUE INDEX runs_by_place ON runs (place);
    CREATE INDEX turns_of_conversation ON runs (conversation, place) WHERE conversation <> '';
    CREATE INDEX children_of_run ON runs (parent, place) WHERE parent <> '';
    CREATE INDEX top_runs ON runs (place) WHERE parent = '';
    CREATE INDEX top_runs_of_team ON runs (team, place) WHERE parent = '';
    CREATE INDEX runs_of_status ON runs (status, parent, place);

    -- The key rejects a number that exists: it fences out a driver that another one has replaced.
    CREATE TABLE events (
        run text NOT NULL, number bigint NOT NULL, time float8 NOT NULL, scope text NOT NULL, place text NOT NULL,
        kind text NOT NULL, data text NOT NULL, version bigint, PRIMARY KEY (run, number)
    );

    -- A body that no run refers to is deleted with the last of them.
    CREATE TABLE bodies (hash text PRIMARY KEY, text text NOT NULL);
    CREATE TABLE body_uses (run text NOT NULL, hash text NOT NULL, PRIMARY KEY (run, hash));
    CREATE INDEX uses_of_body ON body_uses (hash);

    -- Ids grow within a run. Those of a run that was copied from another journal stay as they are. `sending` identifies
    -- one sending, which is repeated where its reply was lost.
    CREATE SEQUENCE inbox_ids;
    CREATE TABLE inbox (
        run_id text NOT NULL, id bigint NOT NULL DEFAULT nextval('inbox_ids'), data text NOT NULL,
        sending text UNIQUE, PRIMARY KEY (run_id, id)
    );

    CREATE TABLE notes (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, memory text NOT NULL, text text NOT NULL,
        author text NOT NULL, run_id text NOT NULL, time float8 NOT NULL, key text NOT NULL UNIQUE, forgotten text
    );
    CREATE INDEX notes_of_memory ON notes (memory, id) WHERE forgotten IS NULL;
"""

MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        Version(1, 0),
        _RUN_TABLES + PACE_TABLES + BUDGET_TABLES + SCHEDULE_TABLES + WORKER_TABLES + QUEUE_TABLES + TOKEN_RATE_TABLES,
    ),
    Migration(Version(1, 1), "CREATE INDEX recent_runs ON runs (team, status, since, id) WHERE parent = ''"),
    Migration(Version(1, 2), "ALTER TABLE runs ADD COLUMN resume_at float8"),
)


async def migrate(
    connection: AsyncConnection[TupleRow], address: DatabaseAddress, migrations: tuple[Migration, ...] = MIGRATIONS
) -> Version:
    """Create or upgrade the tables, safely beside other processes, and return their version.

    Raises `JournalTooNew` if a newer program has changed what this one knows.
    """
    latest = migrations[-1].version
    if (found := await _read_version(connection)) is None or found < latest:
        async with connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (address.lock_key("migrations"),))
            await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{address.schema}"'.encode())
            await connection.execute("CREATE TABLE IF NOT EXISTS layout (major int NOT NULL, minor int NOT NULL)")
            found = await _read_version(connection)
            for migration in migrations:
                if found is None or found < migration.version:
                    await connection.execute(migration.statements)
            if found is None or found < latest:
                await connection.execute("DELETE FROM layout")
                await connection.execute("INSERT INTO layout VALUES (%s, %s)", latest)
                found = latest
    if found.major > latest.major:
        raise JournalTooNew(
            f"The journal {address.shown} has layout {found} and this version of Teamwright knows up to {latest}:"
            " update Teamwright, or use another schema."
        )
    return found


async def _read_version(connection: AsyncConnection[TupleRow]) -> Version | None:
    exists = await (await connection.execute("SELECT to_regclass('layout')")).fetchone()
    if exists is None or exists[0] is None:
        return None
    row = await (await connection.execute("SELECT major, minor FROM layout")).fetchone()
    return None if row is None else Version(*row)


LARGEST_ID = 2**63 - 1
"""The largest number that the database stores."""
_NOTE_COLUMNS: LiteralString = "id, memory, text, author, run_id, time"


class PostgresNotes:
    """The notes of one journal."""

    def __init__(self, address: DatabaseAddress, use: UseConnection) -> None:
        self._address, self._use = address, use

    async def add(self, note: Note, *, key: str, most: int) -> Note | None:

        async def work(connection: Connection) -> Note | None:
            async with connection.transaction():
                lock = self._address.lock_key(f"memory\0{note.memory}")
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
                return await _same(connection, note, key) or await _add(connection, note, key, most)

        return await self._use(work)

    async def search(self, memory: str, words: Sequence[str], limit: int) -> list[Note]:
        """Return the notes that contain most of the words, the newest first among equals."""

        async def work(connection: Connection) -> list[Note]:
            statement: LiteralString = (
                f"SELECT {_NOTE_COLUMNS} FROM notes WHERE memory = %s AND forgotten IS NULL ORDER BY id DESC LIMIT %s"
            )
            cursor = await connection.execute(statement, (memory, None if words else limit))
            return [Note(*row) for row in await cursor.fetchall()]

        return rank_notes(await self._use(work), words, limit)

    async def forget(self, memory: str, note: int, *, key: str) -> bool:
        """Remove the text of a note, once for each key."""
        if not 0 < note <= LARGEST_ID:  # a model may invent any number
            return False

        async def work(connection: Connection) -> bool:
            await connection.execute(
                "UPDATE notes SET text = '', forgotten = %s WHERE id = %s AND memory = %s AND forgotten IS NULL",
                (key, note, memory),
            )
            cursor = await connection.execute(
                "SELECT forgotten FROM notes WHERE id = %s AND memory = %s", (note, memory)
            )
            return await cursor.fetchone() == (key,)

        return await self._use(work)

    async def memories(self) -> dict[str, int]:

        async def work(connection: Connection) -> dict[str, int]:
            cursor = await connection.execute(
                'SELECT memory, count(*) FROM notes WHERE forgotten IS NULL GROUP BY memory ORDER BY memory COLLATE "C"'
            )
            return dict(await cursor.fetchall())

        return await self._use(work)


async def _same(connection: Connection, note: Note, key: str) -> Note | None:
    """The note with this key, or with the same text in the same memory."""
    statement: LiteralString = (
        f"SELECT {_NOTE_COLUMNS} FROM notes WHERE key = %(key)s"
        " OR (memory = %(memory)s AND forgotten IS NULL AND text = %(text)s) ORDER BY key <> %(key)s LIMIT 1"
    )
    cursor = await connection.execute(statement, {"key": key, "memory": note.memory, "text": note.text})
    row = await cursor.fetchone()
    return None if row is None else Note(*row)


async def _add(connection: Connection, note: Note, key: str, most: int) -> Note | None:
    cursor = await connection.execute(
        "SELECT count(*) FROM notes WHERE memory = %s AND forgotten IS NULL", (note.memory,)
    )
    row = await cursor.fetchone()
    if row is not None and row[0] >= most:
        return None
    columns = (note.memory, note.text, note.author, note.run_id, note.time)
    cursor = await connection.execute(
        "INSERT INTO notes (memory, text, author, run_id, time, key) VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
        (*columns, key),
    )
    row = await cursor.fetchone()
    return Note(row[0] if row else 0, *columns)


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
            connection = await connect_driver(self._address, self._name)
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
