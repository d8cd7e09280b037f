"""Reads runs, events, bodies and inboxes from the database, adds to an inbox, and deletes runs.

A body that another run refers to is never deleted. The ids of one run's inbox grow in the order in which its items
become visible.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import LiteralString

from teamwright.errors import JournalCorrupt, JournalTooNew, RunIsLive
from teamwright.garbage_collector import collection_paused
from teamwright.journal.codec import decode_events, decode_intervention, decode_run, encode_intervention, is_body
from teamwright.journal.postgres.connection import Connection, DatabaseAddress
from teamwright.journal.postgres.rows import STATUS_COLUMNS
from teamwright.journal.protocol import InboxItem, RunStatus
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event, fold
from teamwright.values.people import Intervention
from teamwright.values.turns.results import FINAL, RunSummary

_CHUNK = 1000


async def read_events(
    connection: Connection, run_id: str, after: int, limit: int | None = None, without: Collection[str] = ()
) -> list[Event]:
    """Read the events of a run with a number above `after`, in order, except the kinds in `without`."""
    cursor = await connection.execute(
        "SELECT number, time, scope, place, kind, data, version FROM events"
        " WHERE run = %s AND number > %s AND kind <> ALL(%s::text[]) ORDER BY number LIMIT %s",
        (run_id, after, list(without), limit),
    )
    rows = await cursor.fetchall()
    with collection_paused():
        return decode_events(run_id, rows)


async def read_run(connection: Connection, run_id: str) -> tuple[RunStatus, list[Event]] | None:
    """Read a run's saved status and its events since; None where there is no such run."""
    statement: LiteralString = f"SELECT place, {STATUS_COLUMNS} FROM runs WHERE id = %s"
    found = await (await connection.execute(statement, (run_id,))).fetchone()
    if found is None:
        return None
    _, status = decode_run(run_id, found)
    return status, await read_events(connection, run_id, status.number)


async def read_bodies(connection: Connection, wanted: Collection[Body]) -> dict[Body, str]:
    """Read those of these bodies that exist and match their hashes."""
    hashes, found = list(wanted), dict[Body, str]()
    for start in range(0, len(hashes), _CHUNK):
        cursor = await connection.execute(
            "SELECT hash, text FROM bodies WHERE hash = ANY(%s::text[])", (hashes[start : start + _CHUNK],)
        )
        found.update({body: text for body, text in await cursor.fetchall() if is_body(body, text)})
    return found


async def read_summaries(
    connection: Connection, address: DatabaseAddress, which: LiteralString, parameters: Sequence[object]
) -> list[RunSummary]:
    """Read the summaries of runs. A run that can't be read is marked as damaged and does not hide the others."""
    statement: LiteralString = f"SELECT id, place, {STATUS_COLUMNS} FROM runs {which}"
    rows = await (await connection.execute(statement, parameters)).fetchall()
    driven = await read_driven(connection, address, [run_id for run_id, *_ in rows]) if rows else set[str]()
    return [await _summary(connection, run_id, columns, driven=run_id in driven) for run_id, *columns in rows]


async def _summary(connection: Connection, run_id: str, columns: Sequence[object], *, driven: bool) -> RunSummary:
    status = RunStatus()
    try:
        _, status = decode_run(run_id, columns)
        if not status.settled:
            fold(await read_events(connection, run_id, status.number), status)
    except (JournalCorrupt, JournalTooNew) as error:
        return status.summary(run_id, driven=driven).changed(damage=str(error))
    return status.summary(run_id, driven=driven)


async def read_last_items(connection: Connection, run_ids: Sequence[str]) -> dict[str, int]:
    """Return the id of the last inbox item of those of these runs that have one."""
    cursor = await connection.execute(
        "SELECT run_id, max(id) FROM inbox WHERE run_id = ANY(%s::text[]) GROUP BY run_id", (list(run_ids),)
    )
    return dict(await cursor.fetchall())


async def read_driven(connection: Connection, address: DatabaseAddress, run_ids: Sequence[str]) -> set[str]:
    """Return those of these runs whose driver lock is held by any process."""
    keys = {address.lock_key(run_id): run_id for run_id in run_ids}
    cursor = await connection.execute(
        "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1"
        " AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    return {keys[key] for (key,) in await cursor.fetchall() if key in keys}


async def read_clock(connection: Connection) -> float:
    """Return the time by the clock of the database, in seconds since 1970."""
    row = await (await connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8")).fetchone()
    assert row is not None
    return row[0]


async def read_ended(connection: Connection, seconds: float, limit: int) -> list[str]:
    """Return the oldest runs that are no children and ended more than `seconds` ago, by the clock of the database."""
    cursor = await connection.execute(
        "SELECT id FROM runs WHERE status = ANY(%s::text[]) AND parent = ''"
        " AND last < extract(epoch FROM clock_timestamp()) - %s ORDER BY place LIMIT %s",
        (list(FINAL), seconds, limit),
    )
    return [run_id for (run_id,) in await cursor.fetchall()]


async def send_item(
    connection: Connection, address: DatabaseAddress, run_id: str, intervention: Intervention, sender: str, sending: str
) -> None:
    """Add an intervention to a run's inbox, once for each `sending`, and notify other processes.

    The lock lets a second sender wait for its id: else its item could become visible before one with a lower id, which
    a driver would then never read.
    """
    text = encode_intervention(intervention)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (address.lock_key(f"inbox\0{run_id}"),))
        await connection.execute(
            "INSERT INTO inbox (run_id, data, sending) VALUES (%s, %s, %s) ON CONFLICT (sending) DO NOTHING",
            (run_id, text, sending),
        )
        await connection.execute("SELECT pg_notify(%s, %s)", (address.channel, sender))


async def restore_item(connection: Connection, item: InboxItem) -> None:
    """Add an item of another journal under its id; items that are sent later have higher ones."""
    text = encode_intervention(item.intervention)
    async with connection.transaction():
        await connection.execute("SELECT setval('inbox_ids', greatest(nextval('inbox_ids'), %s))", (item.id,))
        await connection.execute(
            "INSERT INTO inbox (run_id, id, data) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
            (item.run_id, item.id, text),
        )


async def read_inbox(connection: Connection, run_id: str, after: int) -> list[InboxItem]:
    """Read the inbox items of a run with an id above `after`, in order."""
    cursor = await connection.execute(
        "SELECT id, data FROM inbox WHERE run_id = %s AND id > %s ORDER BY id", (run_id, after)
    )
    rows = await cursor.fetchall()
    return [InboxItem(number, run_id, decode_intervention(run_id, number, data)) for number, data in rows]


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
