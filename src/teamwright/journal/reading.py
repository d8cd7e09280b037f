"""Reads events and bodies out of the database, in few statements. It never writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from itertools import islice

from teamwright.journal.rows import EVENT, NUMBERS, split, to_events
from teamwright.values.events import Body, Event

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
    rows = connection.execute(
        f"SELECT {EVENT} FROM events WHERE position > ? AND position < ? {others} ORDER BY position LIMIT ?",
        (start + after, start + NUMBERS, *without, -1 if limit is None else limit),
    )
    return to_events(run_id, rows)


def read_places(pen: sqlite3.Cursor, place: int, after: int = 0) -> dict[Body, int]:
    """The bodies that came to the run at this place with events above `after`, and the positions of those."""
    start = place * NUMBERS
    rows = pen.execute(
        "SELECT position, bodies FROM events WHERE position > ? AND position < ? AND bodies IS NOT NULL",
        (start + after, start + NUMBERS),
    )
    return {body: position for position, bodies in rows for body, _ in split(bodies)}


def read_bodies(reader: sqlite3.Connection, wanted: Collection[Body]) -> dict[Body, str]:
    """Those of these bodies that there are. They mostly lie in a row, where reading on beats looking up."""
    found: dict[Body, str] = {}

    def take(statement: str, parameters: Sequence[bytes | int] = ()) -> None:
        rows = reader.execute(statement, parameters)
        found.update({body: text for (bodies,) in rows for body, text in split(bodies) if body in wanted})

    def missing(limit: int | None = None) -> list[bytes]:
        return [bytes.fromhex(body) for body in islice(wanted, limit) if body not in found]

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
    return None if low is None or high - low > longest else (low, high)


def _among(keys: Sequence[bytes]) -> str:
    return f"WHERE hash IN ({', '.join('?' * len(keys))})"


@contextmanager
def _one_moment(reader: sqlite3.Connection) -> Generator[None]:
    """All that is read within is of one moment: what is noted meanwhile would be found neither here nor there."""
    reader.execute("BEGIN")
    try:
        yield
    finally:
        reader.execute("COMMIT")
