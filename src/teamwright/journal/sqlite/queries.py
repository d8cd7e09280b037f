"""Reads and deletes events and bodies, in few statements; and transactions.

A body that another run refers to is never deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from itertools import islice

from teamwright.collector_pauses import collection_paused
from teamwright.errors import JournalCorrupt, JournalTooNew
from teamwright.journal.codec import (
    EVENT_COLUMNS,
    NUMBERS,
    decode_events,
    decode_run,
    is_body,
    is_hash,
    is_place,
    join_bodies,
    pack_body,
    references,
    split_bodies,
)
from teamwright.journal.protocol import COLUMNS, RunStatus, damaged
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event, fold
from teamwright.values.turns.results import RunSummary

STATUS_COLUMNS = ", ".join(COLUMNS)
"""The columns of a run's status."""
_CHUNK = 500
_DENSE = 8
"""The most events per wanted body for which scanning a range beats single lookups."""
_RECENT = (
    "SELECT events.bodies FROM runs JOIN events"
    f" ON position > runs.place * {NUMBERS} + number AND position < (runs.place + 1) * {NUMBERS}"
    " WHERE events.bodies IS NOT NULL"
)
"""Selects the bodies of all runs that are not indexed yet."""


def read_events(
    connection: sqlite3.Connection | sqlite3.Cursor,
    run_id: str,
    place: int,
    after: int,
    limit: int | None = None,
    without: Collection[str] = (),
) -> list[Event]:
    """Read the events of the run at this place with a number above `after`, in order, except the kinds in `without`."""
    start = place * NUMBERS
    others = f"AND kind NOT IN ({', '.join('?' * len(without))})" if without else ""
    statement = (
        f"SELECT {EVENT_COLUMNS} FROM events WHERE position > ? AND position < ? {others} ORDER BY position LIMIT ?"
    )
    parameters = (start + after, start + NUMBERS, *without, -1 if limit is None else limit)
    try:
        with collection_paused():  # all rows at once: an unfinished statement would block checkpoints
            return decode_events(run_id, connection.execute(statement, parameters).fetchall())
    except sqlite3.OperationalError as error:
        if is_bad_text(error):
            raise damaged(run_id, "an event contains a text that is not UTF-8") from error
        raise


def read_run(cursor: sqlite3.Cursor, run_id: str) -> tuple[int, RunStatus] | None:
    """Read a run's place and its saved status; None where there is no such run."""
    with lenient_text(cursor.connection):
        found = cursor.execute(f"SELECT place, {STATUS_COLUMNS} FROM runs WHERE id = ?", (run_id,)).fetchone()
    return None if found is None else decode_run(run_id, found)


def read_summaries(
    reader: sqlite3.Connection, which: str, parameters: Sequence[str | float], is_driven: Callable[[str], bool]
) -> list[RunSummary]:
    """Read the summaries of runs. A run that can't be read is marked as damaged and does not hide the others."""
    with lenient_text(reader):
        rows = reader.execute(f"SELECT id, place, {STATUS_COLUMNS} FROM runs {which}", parameters).fetchall()
    return [_summary(reader, str(run_id), columns, is_driven) for run_id, *columns in rows]


def _summary(
    reader: sqlite3.Connection, run_id: str, columns: Sequence[object], is_driven: Callable[[str], bool]
) -> RunSummary:
    status = RunStatus()
    try:
        place, status = decode_run(run_id, columns)
        if not status.settled:
            fold(read_events(reader, run_id, place, status.number), status)
    except (JournalCorrupt, JournalTooNew) as error:
        return status.summary(run_id, driven=is_driven(run_id)).changed(damage=str(error))
    return status.summary(run_id, driven=not status.settled and is_driven(run_id))


def read_place(reader: sqlite3.Connection, run_id: str) -> int | None:
    """Read the place of a run, which gives the position of its rows; None where there is no such run."""
    found = reader.execute("SELECT place FROM runs WHERE id = ?", (run_id,)).fetchone()
    if found is None:
        return None
    if not is_place(found[0]):
        raise damaged(run_id, "its row in the list of runs has no valid place")
    return found[0]


def read_places(cursor: sqlite3.Cursor, place: int, after: int = 0) -> dict[Body, int]:
    """Read the positions of the bodies that are stored with events above `after` of the run at this place."""
    start = place * NUMBERS
    rows = cursor.execute(
        "SELECT position, bodies FROM events WHERE position > ? AND position < ? AND bodies IS NOT NULL",
        (start + after, start + NUMBERS),
    )
    return {body: position for position, bodies in rows for body, _ in split_bodies(bodies)}


def is_stored_at(cursor: sqlite3.Cursor, body: Body, position: object) -> bool:
    """Whether the row at a position stores this body unaltered."""
    found = cursor.execute("SELECT bodies FROM events WHERE position = ?", (position,)).fetchone()
    return found is not None and any(one == body and is_body(one, text) for one, text in split_bodies(found[0]))


def read_bodies(reader: sqlite3.Connection, wanted: Collection[Body]) -> dict[Body, str]:
    """Read those of these bodies that exist. They are mostly adjacent, where scanning beats single lookups."""
    try:
        return _read_bodies(reader, wanted)
    except sqlite3.OperationalError as error:
        if not is_bad_text(error):
            raise
    with lenient_text(reader):
        return _read_bodies(reader, wanted)


def _read_bodies(reader: sqlite3.Connection, wanted: Collection[Body]) -> dict[Body, str]:
    found: dict[Body, str] = {}

    def collect(statement: str, parameters: Sequence[bytes | int] = ()) -> None:
        rows = reader.execute(statement, parameters)
        found.update(
            {
                body: text
                for (bodies,) in rows
                for body, text in split_bodies(bodies)
                if body in wanted and is_body(body, text)
            }
        )

    def missing(limit: int | None = None) -> list[bytes]:
        return [bytes.fromhex(body) for body in islice(wanted, limit) if body not in found and is_hash(body)]

    with _snapshot(reader):
        if len(wanted) > _CHUNK and (span := _span(reader, missing(_CHUNK), _DENSE * len(wanted))):
            collect("SELECT bodies FROM events WHERE position BETWEEN ? AND ? AND bodies IS NOT NULL", span)
        left = missing()
        for start in range(0, len(left), _CHUNK):
            chunk = left[start : start + _CHUNK]
            collect(f"SELECT bodies FROM events WHERE position IN (SELECT position FROM bodies {_among(chunk)})", chunk)
        if len(found) < len(wanted):
            collect(_RECENT)
    return found


def _span(reader: sqlite3.Connection, keys: Sequence[bytes], longest: int) -> tuple[int, int] | None:
    """The range of positions of these bodies; None where it is longer than `longest`."""
    low, high = reader.execute(f"SELECT min(position), max(position) FROM bodies {_among(keys)}", keys).fetchone()
    valid = isinstance(low, int) and isinstance(high, int)
    return (low, high) if valid and high - low <= longest else None


def _among(keys: Sequence[bytes]) -> str:
    return f"WHERE hash IN ({', '.join('?' * len(keys))})"


def is_bad_text(error: sqlite3.Error) -> bool:
    """Whether the error is about a text that is not UTF-8: Python raises it, without an SQLite error code."""
    return isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")


def _replaced(text: bytes) -> str:
    return text.decode("utf-8", "replace")


@contextmanager
def lenient_text(connection: sqlite3.Connection) -> Generator[None]:
    """Decode invalid UTF-8 with replacement characters, so that one bad row does not hide the others."""
    connection.text_factory = _replaced
    try:
        yield
    finally:
        connection.text_factory = str


@contextmanager
def _snapshot(reader: sqlite3.Connection) -> Generator[None]:
    """Read within one snapshot: a body that is indexed meanwhile could be missed by both lookups."""
    reader.execute("BEGIN")
    try:
        yield
    finally:
        reader.execute("COMMIT")


def delete_runs(cursor: sqlite3.Cursor, run_ids: Collection[str]) -> None:
    """Delete all rows of these runs, within the caller's transaction."""
    places = _places(cursor, run_ids)
    bodies = _exclusive_bodies(cursor, places)
    for position, moving in _referenced_elsewhere(cursor, places, bodies).items():
        texts = _bodies_at(cursor, position)
        for body in moving:
            texts |= {body: _bodies_at(cursor, bodies[body])[body]}
            cursor.execute("REPLACE INTO bodies VALUES (?, ?)", (bytes.fromhex(body), position))
            del bodies[body]
        cursor.execute(
            "UPDATE events SET bodies = ? WHERE position = ?",
            (join_bodies(pack_body(*one) for one in texts.items()), position),
        )
    cursor.executemany("DELETE FROM bodies WHERE hash = ?", [(bytes.fromhex(body),) for body in bodies])
    for place in places:
        cursor.execute(
            "DELETE FROM events WHERE position >= ? AND position < ?", (place * NUMBERS, (place + 1) * NUMBERS)
        )
    cursor.executemany("DELETE FROM runs WHERE id = ?", [(run_id,) for run_id in run_ids])
    cursor.executemany("DELETE FROM inbox WHERE run_id = ?", [(run_id,) for run_id in run_ids])


def _places(cursor: sqlite3.Cursor, run_ids: Collection[str]) -> set[int]:
    found = (cursor.execute("SELECT place FROM runs WHERE id = ?", (run_id,)).fetchone() for run_id in run_ids)
    return {row[0] for row in found if row and is_place(row[0])}


def _exclusive_bodies(cursor: sqlite3.Cursor, places: Collection[int]) -> dict[Body, int]:
    """The positions of bodies that only rows of these runs store."""
    found = {body: position for place in places for body, position in read_places(cursor, place).items()}
    bodies = {body: position for body, position in found.items() if is_hash(body)}
    for body in list(bodies):
        noted = cursor.execute("SELECT position FROM bodies WHERE hash = ?", (bytes.fromhex(body),)).fetchone()
        if noted and is_stored_at(cursor, body, noted[0]) and noted[0] // NUMBERS not in places:
            del bodies[body]
    return bodies


def _referenced_elsewhere(
    cursor: sqlite3.Cursor, places: Collection[int], bodies: Collection[Body]
) -> dict[int, set[Body]]:
    """The bodies that events of other runs refer to, by the position of the first such event."""
    found: dict[int, set[Body]] = {}
    left = set(bodies)
    if left:
        for position, data in cursor.execute("SELECT position, data FROM events ORDER BY position"):
            if position // NUMBERS not in places and (here := left.intersection(references(data))):
                found[position] = here
                left -= here
    return found


def _bodies_at(cursor: sqlite3.Cursor, position: int) -> dict[Body, str]:
    (texts,) = cursor.execute("SELECT bodies FROM events WHERE position = ?", (position,)).fetchone()
    return dict(split_bodies(texts)) if texts else {}


class transaction:  # noqa: N801 - it is used as a function
    """A transaction that acquires the write lock at its start, so that its commit can't fail for lack of it."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    def __enter__(self) -> sqlite3.Cursor:
        return self._cursor.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._cursor.execute("COMMIT")
        finally:
            if self._cursor.connection.in_transaction:
                self._cursor.execute("ROLLBACK")


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return the integer value of a pragma."""
    return connection.execute(f"PRAGMA {name}").fetchone()[0]
