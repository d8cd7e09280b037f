"""The rows of one commit, gathered from its batches, the statement that inserts them all at once, and what the driver
session knows of a run: its last saved status, the events since, and the bodies it refers to.

It also reads runs, events, bodies and inboxes, adds to an inbox, and deletes runs. A body that another run refers to is
never deleted. The ids of one run's inbox grow in the order in which its items become visible.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import LiteralString

from teamwright.collector_pauses import collection_paused
from teamwright.errors import JournalCorrupt, JournalTooNew, RunIsLive
from teamwright.journal.codec import (
    decode_events,
    decode_intervention,
    decode_run,
    encode_intervention,
    is_body,
    references,
    to_row,
)
from teamwright.journal.postgres.connection import Connection, DatabaseAddress
from teamwright.journal.postgres.driver_connection import Statement
from teamwright.journal.postgres.tenant_budgets import reserve_parameters
from teamwright.journal.protocol import STATUS_FACTS, Batch, InboxItem, RunStatus
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event, fold
from teamwright.values.people import Intervention
from teamwright.values.turns.results import FINAL, RunSummary

STATUS_COLUMNS: LiteralString = (
    "number, team, started, status, stop_reason, tokens, usd, seconds, since, last, resume_at, conversation,"
    " parent, driver"
)
"""The columns of a run's status, in the order of `RunStatus`."""
MOST_ROWS = 4
"""The most rows of one table that a statement for a single batch names one by one; each number is a statement."""

_INTO_EVENTS = "INSERT INTO events (run, number, time, scope, place, kind, data, version)"
_EVENT_TYPES = ("text", "bigint", "float8", "text", "text", "text", "text", "bigint", "bigint")
"""The columns of an event, and last the number of the event that must be there before it, if any."""
_AFTER_PREVIOUS = (
    "SELECT run, CASE WHEN previous IS NULL OR EXISTS (SELECT FROM events AS other WHERE other.run = new.run"
    " AND other.number = new.previous) THEN number END, time, scope, place, kind, data, version FROM {rows}"
    " AS new (run, number, time, scope, place, kind, data, version, previous)"
)
"""The rows of events. One whose predecessor is gone has no number, which its column rejects: a gap can't be written."""
_FIRST_NUMBER = (
    "CASE WHEN $2::bigint = 1 OR EXISTS (SELECT FROM events WHERE run = $1 AND number = $2::bigint - 1)"
    " THEN $2::bigint END"
)
"""The number of the first event of a statement for a single batch, rejected in the same way."""
_EVENT_FORMATS = (0, 0, 1, 1, 1, 1, 0)
"""The formats of the columns of an event, except its run. Texts are sent as bytes: others wrote them."""
_STATUS_TYPES = (
    "text", "bigint", "text", "float8", "text", "text", "bigint", "float8", "float8", "float8", "float8", "float8",
    "text", "text", "text",
)  # fmt: skip
_INTO_STATUSES = f"INSERT INTO runs (id, {STATUS_COLUMNS})"
_NEWER_STATUS = (
    f" ON CONFLICT (id) DO UPDATE SET ({STATUS_COLUMNS}) = (excluded.number, excluded.team, excluded.started,"
    " excluded.status, excluded.stop_reason, excluded.tokens, excluded.usd, excluded.seconds, excluded.since,"
    " excluded.last, excluded.resume_at, excluded.conversation, excluded.parent, excluded.driver)"
)


class CommitRows:
    """The rows of several batches, or of one that has many."""

    def __init__(self) -> None:
        self._events: list[tuple[str, int, float, str, str, str, str, int | None, int | None]] = []
        self._runs: set[str] = set()
        self._bodies: dict[Body, str] = {}
        self._uses: dict[tuple[str, Body], None] = {}
        self._statuses: list[tuple[object, ...]] = []
        self._claims: list[tuple[object, ...]] = []

    def add(self, batch: Batch, known: Collection[Body]) -> set[Body]:
        """Add a batch; return the bodies it refers to that its run, which refers to those in `known`, did not."""
        run_id, used = batch.run_id, set[Body]()
        if batch.claim is not None:
            self._claims.append(reserve_parameters(run_id, batch.claim))
        for event in batch.events:
            number, time, scope, place, kind, data, version, _ = to_row(event.number, event, None)
            previous = number - 1 if number > 1 and run_id not in self._runs else None
            self._runs.add(run_id)
            self._events.append((run_id, number, time, scope, place, kind, data, version, previous))
            used.update(references(data))
        used.update(batch.bodies)
        used.difference_update(known)
        self._bodies.update(batch.bodies)
        self._uses.update(dict.fromkeys((run_id, body) for body in used))
        return used

    def save(self, run_id: str, status: RunStatus) -> None:
        """Add the status of a run; Postgres stores no NUL in texts."""
        columns = (one.replace("\0", "\ufffd") if isinstance(one, str) else one for one in status.columns())
        self._statuses.append((run_id, *columns))

    def statement(self, *, is_new: bool = False) -> Statement:
        """One statement for all rows, as one array per column: it succeeds or fails as a whole, in one round trip.

        That of a run that `is_new` inserts its status and never changes one, which takes less rights.
        """
        parameters: list[bytes | None] = []
        parts: list[str] = []

        def unnest(rows: Iterable[tuple[object, ...]], types: Sequence[str]) -> str:
            first = len(parameters) + 1
            parameters.extend(_array(column) for column in zip(*rows, strict=True))
            return f"unnest({', '.join(f'${first + index}::{one}[]' for index, one in enumerate(types))})"

        if self._bodies:
            rows = unnest(self._bodies.items(), ("text", "text"))
            parts.append(f"bodies AS (INSERT INTO bodies SELECT * FROM {rows} ORDER BY 1 ON CONFLICT DO NOTHING)")
        if self._uses:
            rows = unnest(self._uses, ("text", "text"))
            parts.append(f"uses AS (INSERT INTO body_uses SELECT * FROM {rows} ORDER BY 2, 1 ON CONFLICT DO NOTHING)")
        if self._statuses:
            rows = unnest(self._statuses, _STATUS_TYPES)
            parts.append(f"statuses AS ({_INTO_STATUSES} SELECT * FROM {rows}{'' if is_new else _NEWER_STATUS})")
        text = f"{_INTO_EVENTS} {_AFTER_PREVIOUS.format(rows=unnest(self._events, _EVENT_TYPES))}"
        if self._claims:
            parts.append(f"events AS ({text})")
            rows = unnest(self._claims, ("text", "text", "numeric", "numeric"))
            text = f"SELECT reserve_budget(run, budget, usd, tokens) FROM {rows} AS claims (run, budget, usd, tokens)"
        return Statement(_with(parts, text), parameters, (0,) * len(parameters))


def small_statement(batch: Batch, known: Collection[Body]) -> tuple[Statement, set[Body]] | None:
    """The statement that inserts a batch of few rows, and the bodies that it refers to beside those in `known`.

    Its rows are single values, which take half as long as arrays, here and in Postgres. Returns `None` for a batch with
    more rows, or with a claim.
    """
    events, bodies, used = batch.events, batch.bodies, set[Body](batch.bodies)
    if batch.claim is not None or max(len(events), len(bodies)) > MOST_ROWS:
        return None
    parameters: list[bytes | None] = [batch.run_id.encode()]
    for event in events:
        number, time, scope, place, kind, data, version, _ = to_row(event.number, event, None)
        used.update(references(data))
        parameters += (
            b"%d" % number, repr(time).encode(), scope.encode(), place.encode(), kind.encode(), data.encode(),
            None if version is None else b"%d" % version,
        )  # fmt: skip
    used.difference_update(known)
    if len(used) > MOST_ROWS:
        return None
    # All processes insert bodies in this order, so none waits for another in a circle.
    for body in sorted(bodies):
        parameters += (body.encode(), bodies[body].encode())
    parameters += [body.encode() for body in sorted(used)]
    text, formats = _small_text(len(events), len(bodies), len(used))
    return Statement(text, parameters, formats), used


def commit_statement(
    batches: Sequence[Batch], runs: Mapping[str, DrivenRun], is_held: Callable[[str], bool]
) -> Statement:
    """The statement that inserts batches of these runs, which take them in.

    It saves the status of a run where that is due, and always if the run's driver lock is not held here.
    """

    def saves_status(batch: Batch) -> bool:
        return runs[batch.run_id].is_due(batch.events) or not is_held(batch.run_id)

    if len(batches) == 1 and not saves_status(batch := batches[0]):
        run = runs[batch.run_id]
        if (found := small_statement(batch, run.bodies)) is not None:
            statement, used = found
            run.add(batch, used)
            return statement
    rows = CommitRows()
    due: set[str] = set()
    for batch in batches:
        run = runs[batch.run_id]
        if saves_status(batch):
            due.add(batch.run_id)
        run.add(batch, rows.add(batch, run.bodies))
    for run_id in due:
        rows.save(run_id, runs[run_id].save())
    return rows.statement()


def first_commit(batch: Batch) -> tuple[str, list[str]]:
    """The statement that inserts a new run with its first batch, as psycopg takes it, and its parameters."""
    rows, status = CommitRows(), RunStatus()
    rows.add(batch, ())
    fold(batch.events, status)
    rows.save(batch.run_id, status)
    statement = rows.statement(is_new=True)
    return re.sub(r"\$\d+", "%s", statement.text), [one.decode() for one in statement.parameters if one is not None]


@cache
def _small_text(events: int, bodies: int, uses: int) -> tuple[str, Sequence[int]]:
    """The statement that inserts so many rows of each table, all of one run, and the formats of its parameters."""
    number = iter(range(2, 1 << 16))

    def values(rows: int, columns: int, first: str = "") -> str:
        return ", ".join(f"({first}{', '.join(f'${next(number)}' for _ in range(columns))})" for _ in range(rows))

    text = f"{_INTO_EVENTS} VALUES {values(events, len(_EVENT_FORMATS), '$1, ')}".replace("$2", _FIRST_NUMBER, 1)
    parts: list[str] = []
    if bodies:
        parts.append(f"bodies AS (INSERT INTO bodies VALUES {values(bodies, 2)} ON CONFLICT DO NOTHING)")
    if uses:
        parts.append(f"uses AS (INSERT INTO body_uses VALUES {values(uses, 1, '$1, ')} ON CONFLICT DO NOTHING)")
    return _with(parts, text), (1, *events * _EVENT_FORMATS, *(2 * bodies + uses) * (1,))


def _with(parts: Sequence[str], text: str) -> str:
    return f"WITH {', '.join(parts)} {text}" if parts else text


def _array(column: Iterable[object]) -> bytes:
    """A column as the text of an array. A NUL cuts the text off, and Postgres rejects what is left."""
    return f"{{{','.join([_item(one) for one in column])}}}".encode()


def _item(value: object) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return "NULL" if value is None else str(value)


UNSAVED = 250
"""The most events since a run's status was saved; readers fold these to get its current status."""
KNOWN_BODIES = 10_000
"""The most bodies that are remembered as referred to; a reference that is stored twice does no harm."""


@dataclass(slots=True)
class DrivenRun:
    """The state of one run in the database, as of its last commit."""

    status: RunStatus
    unsaved: list[Event]
    is_new: bool = False
    bodies: set[Body] = field(default_factory=set[Body])

    def is_due(self, events: Sequence[Event]) -> bool:
        """Whether to save the run's status with these events: when it changes, and after many events."""
        if self.is_new or len(self.unsaved) >= UNSAVED:
            return True
        return any(event.fact.__class__ in STATUS_FACTS for event in events)

    def add(self, batch: Batch, used: set[Body]) -> None:
        """Take in a batch that is being committed."""
        self.unsaved += batch.events
        if len(self.bodies) + len(used) > KNOWN_BODIES:
            self.bodies.clear()
        self.bodies |= used

    def save(self) -> RunStatus:
        """Return the status after all events, which is being saved."""
        fold(self.unsaved, self.status)
        self.unsaved, self.is_new = [], False
        return self.status


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
