"""The writer's cache of one run: where its rows are, its last saved status, and the events since."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from teamwright.journal.codec import NUMBERS, join_bodies, pack_body, split_bodies, to_row
from teamwright.journal.protocol import Batch
from teamwright.journal.run_status import COLUMNS, STATUS_FACTS, RunStatus
from teamwright.journal.sqlite.database import Column, Insert
from teamwright.journal.sqlite.queries import STATUS_COLUMNS, is_stored_at, read_events, read_places, read_run
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold

_UNSAVED = 250
"""The most events since a run's status was saved; readers fold these to get its current status."""
_ADD_RUN = "INSERT INTO runs (id, number, team, tokens, seconds) VALUES (?, 0, '', 0, 0)"
_SET_RUN = f"UPDATE runs SET ({STATUS_COLUMNS}) = ({', '.join('?' * len(COLUMNS))}) WHERE place = ?"
_index_bodies = Insert("bodies", 2, "ON CONFLICT DO NOTHING")


class RunRows:
    """The rows of one run, and the events and bodies since its status was saved."""

    __slots__ = ("_bodies", "_events", "_start", "_status")

    def __init__(self, cursor: sqlite3.Cursor, run_id: str) -> None:
        """Read the run from the database, or insert it, within the caller's transaction."""
        found = read_run(cursor, run_id)
        self._events: list[Event] = []
        self._bodies: dict[Body, int] = {}
        if found is None:
            place, self._status = cursor.execute(_ADD_RUN, (run_id,)).lastrowid or 0, RunStatus()
        else:
            place, self._status = found
            self._events = read_events(cursor, run_id, place, self._status.number)
            self._bodies = read_places(cursor, place, self._status.number)
        self._start = place * NUMBERS

    def add(self, batch: Batch) -> list[Column]:
        """Add a batch and return the columns of its rows as a flat list."""
        events, start = batch.events, self._start
        held = self._pack_new_bodies(batch) if batch.bodies else []
        columns: list[Column] = []
        for index, event in enumerate(events):
            columns += to_row(start + event.number, event, held[index] if index < len(held) else None)
        self._events += events
        return columns

    def _pack_new_bodies(self, batch: Batch) -> list[str]:
        """Pack the new bodies of a batch: one per event, and all remaining ones with the last event."""
        events, known = batch.events, self._bodies
        held: list[str] = []
        for body, text in batch.bodies.items():
            if body not in known:
                event = events[len(held)] if len(held) < len(events) else events[-1]
                known[body] = self._start + event.number
                held.append(pack_body(body, text))
        if len(held) > len(events):
            last = len(events) - 1
            held[last:] = [join_bodies(held[last:])]
        return held

    def is_due(self, events: Sequence[Event]) -> bool:
        """Whether to save the run's status with these events: when it changes, and after many events."""
        if len(self._events) >= _UNSAVED:
            return True
        for event in events:  # noqa: SIM110 - a generator takes longer than most batches
            if event.fact.__class__ in STATUS_FACTS:
                return True
        return False

    def save(self, cursor: sqlite3.Cursor) -> None:
        """Save the run's status and index its bodies, within the caller's transaction."""
        fold(self._events, self._status)
        cursor.execute(_SET_RUN, (*self._status.columns(), self._start // NUMBERS))
        bodies = [(bytes.fromhex(body), position) for body, position in self._bodies.items()]
        if _index_bodies(cursor, list(chain.from_iterable(bodies))) < len(bodies):
            _remove_duplicates(cursor, bodies)
        self._events, self._bodies = [], {}


def _remove_duplicates(cursor: sqlite3.Cursor, bodies: Sequence[tuple[bytes, int]]) -> None:
    """Remove bodies that another row already stores; an index entry that is wrong is corrected instead."""
    doubles: defaultdict[int, list[Body]] = defaultdict(list)
    for one, position in bodies:
        (noted,) = cursor.execute("SELECT position FROM bodies WHERE hash = ?", (one,)).fetchone()
        if noted == position:
            continue
        if is_stored_at(cursor, one.hex(), noted):
            doubles[position].append(one.hex())
        else:
            cursor.execute("UPDATE bodies SET position = ? WHERE hash = ?", (position, one))
    for position, gone in doubles.items():
        (texts,) = cursor.execute("SELECT bodies FROM events WHERE position = ?", (position,)).fetchone()
        left = [pack_body(body, text) for body, text in split_bodies(texts) if body not in gone]
        cursor.execute(
            "UPDATE events SET bodies = ? WHERE position = ?", (join_bodies(left) if left else None, position)
        )
