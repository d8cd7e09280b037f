"""Reads events and bodies out of the database, in few statements. It never writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from teamwright.journal.rows import NUMBERS, to_events
from teamwright.values.events import Body, Event

_CHUNK = 500
_DENSE = 4
"""Up to how many bodies are read for each that is wanted, rather than looking it up."""


def read_events(
    connection: sqlite3.Connection,
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
        f"SELECT * FROM events WHERE position > ? AND position < ? {others} ORDER BY position LIMIT ?",
        (start + after, start + NUMBERS, *without, -1 if limit is None else limit),
    )
    return to_events(run_id, rows)


def read_bodies(reader: sqlite3.Connection, wanted: Collection[bytes]) -> dict[Body, str]:
    """Those of these bodies that there are. A run's bodies mostly lie in a row, where reading on beats looking up."""
    keys = list(wanted)
    sample = _by_hash(reader, keys[:_CHUNK])
    found = {key: text for _, key, text in sample}
    if sample and len(keys) > _CHUNK:
        low, high = min(sample)[0], max(sample)[0]
        if high - low < _DENSE * len(keys):
            between = reader.execute("SELECT hash, text FROM bodies WHERE id BETWEEN ? AND ?", (low, high))
            found.update((key, text) for key, text in between if key in wanted)
    left = [key for key in keys if key not in found]
    for start in range(0, len(left), _CHUNK):
        found.update((key, text) for _, key, text in _by_hash(reader, left[start : start + _CHUNK]))
    return {key.hex(): text for key, text in found.items()}


def _by_hash(reader: sqlite3.Connection, keys: Sequence[bytes]) -> list[tuple[int, bytes, str]]:
    marks = ", ".join("?" * len(keys))
    return reader.execute(f"SELECT id, hash, text FROM bodies WHERE hash IN ({marks})", keys).fetchall()
