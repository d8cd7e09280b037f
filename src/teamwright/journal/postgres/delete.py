"""Deletes runs from the database, but no body that another run refers to."""

from __future__ import annotations

from collections.abc import Collection

from teamwright.errors import RunIsLive
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.connection import Connection


async def delete_runs(connection: Connection, address: DatabaseAddress, run_ids: Collection[str]) -> int:
    """Delete all rows of these runs, and return their size in bytes; raises `RunIsLive` if one of them is driven."""
    runs = sorted(set(run_ids))
    async with connection.transaction():
        for run_id in runs:
            key = address.lock_key(run_id)
            row = await (await connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (key,))).fetchone()
            if row is None or not row[0]:
                raise RunIsLive(run_id)
        # Waits for commits in flight, and holds up new ones, so that no run begins to refer to a body meanwhile.
        await connection.execute("LOCK TABLE bodies, body_uses IN SHARE ROW EXCLUSIVE MODE")
        freed = await _delete_events(connection, runs) + await _delete_bodies(connection, runs)
        await connection.execute("DELETE FROM inbox WHERE run_id = ANY(%s::text[])", (runs,))
        await connection.execute("DELETE FROM runs WHERE id = ANY(%s::text[])", (runs,))
    return freed


async def _delete_events(connection: Connection, runs: list[str]) -> int:
    cursor = await connection.execute(
        "WITH gone AS (DELETE FROM events WHERE run = ANY(%s::text[]) RETURNING octet_length(data) AS size)"
        " SELECT coalesce(sum(size), 0)::bigint FROM gone",
        (runs,),
    )
    row = await cursor.fetchone()
    return row[0] if row else 0


async def _delete_bodies(connection: Connection, runs: list[str]) -> int:
    cursor = await connection.execute(
        "WITH uses AS (DELETE FROM body_uses WHERE run = ANY(%(runs)s::text[]) RETURNING hash),"
        " gone AS (DELETE FROM bodies WHERE hash IN (SELECT hash FROM uses) AND NOT EXISTS"
        " (SELECT 1 FROM body_uses WHERE body_uses.hash = bodies.hash AND run <> ALL(%(runs)s::text[]))"
        " RETURNING octet_length(text) AS size) SELECT coalesce(sum(size), 0)::bigint FROM gone",
        {"runs": runs},
    )
    row = await cursor.fetchone()
    return row[0] if row else 0
