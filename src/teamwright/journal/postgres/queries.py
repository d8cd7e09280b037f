"""Reads runs, events and bodies from the database. It never writes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import LiteralString

from teamwright.errors import JournalCorrupt, JournalTooNew
from teamwright.journal.decoder import decode_events, decode_run, is_body
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.connection import Connection
from teamwright.journal.postgres.rows import STATUS_COLUMNS
from teamwright.journal.run_status import RunStatus
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.gc_pause import collection_paused
from teamwright.values.results import FINAL, RunSummary

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
