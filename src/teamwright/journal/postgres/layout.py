"""The layout of the tables, as versions `major.minor`, and the migrations that create and change it.

A minor version only adds tables, columns with defaults, and indexes, so programs of an older minor version continue to
work beside newer ones. A major version changes what is there: older programs refuse it. A released migration is never
edited; the next one corrects it.
"""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from teamwright.errors import JournalTooNew
from teamwright.journal.postgres.cluster_tables import QUEUE_TABLES, SCHEDULE_TABLES, WORKER_TABLES
from teamwright.journal.postgres.connection import DatabaseAddress
from teamwright.journal.postgres.rate_limits import PACE_TABLES
from teamwright.journal.postgres.tenant_budgets import BUDGET_TABLES

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
