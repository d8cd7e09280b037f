"""Reads events and bodies out of the database, in few statements. It never writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from itertools import islice

from teamwright.journal.decoder import decode_events, decode_run, is_body, is_hash, is_place
from teamwright.journal.encoder import EVENT, NUMBERS, split
from teamwright.journal.errors import damaged
from teamwright.journal.run_status import COLUMNS, RunStatus
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.gc_pause import collection_paused

STATUS_COLUMNS = ", ".join(COLUMNS)
"""The columns that tell how a run stands."""
_CHUNK = 500
_DENSE = 8
"""Up to how many events are passed over for each body that is wanted, rather than looking it up."""
_RECENT = (
    "SELECT events.bodies FROM runs JOIN events"
    f" ON position > runs.place * {NUMBERS} + number AND position < (runs.place + 1) * {NUMBERS}"
    " WHERE events.bodies IS NOT NULL"
)
"""The bodies that are not noted yet, of all runs."""


def read_events(
    connection: sqlite3.Connection | sqlite3.Cursor,
    run_id: str,
    place: int,
    after: int,
    limit: int | None = None,
    without: Collection[str] = (),
) -> list[Event]:
    """The events of the run at this place, with a number above `after`, in order, but for the kinds `without`."""
    start = place * NUMBERS
    others = f"AND kind NOT IN ({', '.join('?' * len(without))})" if without else ""
    statement = f"SELECT {EVENT} FROM events WHERE position > ? AND position < ? {others} ORDER BY position LIMIT ?"
    parameters = (start + after, start + NUMBERS, *without, -1 if limit is None else limit)
    try:
        with collection_paused():  # all rows at once: a statement that ends in the middle would hold up checkpoints
            return decode_events(run_id, connection.execute(statement, parameters).fetchall())
    except sqlite3.OperationalError as error:
        if is_bad_text(error):
            raise damaged(run_id, "an event holds a text that is not UTF-8") from error
        raise


def read_run(pen: sqlite3.Cursor, run_id: str) -> tuple[int, RunStatus] | None:
    """A run's place and how it stood when its row was written, if there is such a run."""
    with lenient(pen.connection):
        found = pen.execute(f"SELECT place, {STATUS_COLUMNS} FROM runs WHERE id = ?", (run_id,)).fetchone()
    return None if found is None else decode_run(run_id, found)


def read_place(reader: sqlite3.Connection, run_id: str) -> int | None:
    """Where the rows of a run begin; nothing, if there is no such run."""
    found = reader.execute("SELECT place FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        return None
    if not is_place(found[0]):
        raise damaged(run_id, "its row in the list of runs has no valid place")
    return found[0]


def read_places(pen: sqlite3.Cursor, place: int, after: int = 0) -> dict[Body, int]:
    """The bodies that came to the run at this place with events above `after`, and the positions of those."""
    start = place * NUMBERS
    rows = pen.execute(
        "SELECT position, bodies FROM events WHERE position > ? AND position < ? AND bodies IS NOT NULL",
        (start + after, start + NUMBERS),
    )
    return {body: position for position, bodies in rows for body, _ in split(bodies)}


def lies_at(pen: sqlite3.Cursor, body: Body, position: object) -> bool:
    """Whether a body lies, unaltered, in the row at a position."""
    found = pen.execute("SELECT bodies FROM events WHERE position = ?", (position,)).fetchone()
    return found is not None and any(one == body and is_body(one, text) for one, text in split(found[0]))


def read_bodies(reader: sqlite3.Connection, wanted: Collection[Body]) -> dict[Body, str]:
    """Those of these bodies that there are. They mostly lie in a row, where reading on beats looking up."""
    try:
        return _read_bodies(reader, wanted)
    except sqlite3.OperationalError as error:
        if not is_bad_text(error):
            raise
    with lenient(reader):
        return _read_bodies(reader, wanted)


def _read_bodies(reader: sqlite3.Connection, wanted: Collection[Body]) -> dict[Body, str]:
    found: dict[Body, str] = {}

    def take(statement: str, parameters: Sequence[bytes | int] = ()) -> None:
        rows = reader.execute(statement, parameters)
        found.update(
            {body: text for (bodies,) in rows for body, text in split(bodies) if body in wanted and is_body(body, text)}
        )

    def missing(limit: int | None = None) -> list[bytes]:
        return [bytes.fromhex(body) for body in islice(wanted, limit) if body not in found and is_hash(body)]

    with _one_moment(reader):
        if len(wanted) > _CHUNK and (span := _span(reader, missing(_CHUNK), _DENSE * len(wanted))):
            take("SELECT bodies FROM events WHERE position BETWEEN ? AND ? AND bodies IS NOT NULL", span)
        left = missing()
        for start in range(0, len(left), _CHUNK):
            chunk = left[start : start + _CHUNK]
            take(f"SELECT bodies FROM events WHERE position IN (SELECT position FROM bodies {_among(chunk)})", chunk)
        if len(found) < len(wanted):
            take(_RECENT)
    return found


def _span(reader: sqlite3.Connection, keys: Sequence[bytes], longest: int) -> tuple[int, int] | None:
    """Between which events these bodies lie, if that is no longer than it may be."""
    low, high = reader.execute(f"SELECT min(position), max(position) FROM bodies {_among(keys)}", keys).fetchone()
    valid = isinstance(low, int) and isinstance(high, int)
    return (low, high) if valid and high - low <= longest else None


def _among(keys: Sequence[bytes]) -> str:
    return f"WHERE hash IN ({', '.join('?' * len(keys))})"


def is_bad_text(error: sqlite3.Error) -> bool:
    """Whether a text of a row is not UTF-8: Python says so, not SQLite, which has a code for all that it says."""
    return isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")


def _replaced(text: bytes) -> str:
    return text.decode("utf-8", "replace")


@contextmanager
def lenient(connection: sqlite3.Connection) -> Generator[None]:
    """Read texts that are not UTF-8 as something else, so that one bad row does not keep the others from being read."""
    connection.text_factory = _replaced
    try:
        yield
    finally:
        connection.text_factory = str


@contextmanager
def _one_moment(reader: sqlite3.Connection) -> Generator[None]:
    """All that is read within is of one moment: what is noted meanwhile would be found neither here nor there."""
    reader.execute("BEGIN")
    try:
        yield
    finally:
        reader.execute("COMMIT")
