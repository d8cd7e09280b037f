"""The writer's cache of one run: where its rows are, its last saved status, and the events since."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain

from teamwright.journal.encoder import NUMBERS, hold, split, to_row, together
from teamwright.journal.protocol import Batch
from teamwright.journal.run_status import COLUMNS, TURNS, RunStatus
from teamwright.journal.sqlite.database import Column, Insert
from teamwright.journal.sqlite.queries import STATUS_COLUMNS, lies_at, read_events, read_places, read_run
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold

_UNSAVED = 250
"""After how many events a run's row is written, at the latest: those since are read to see how it stands."""
_ADD_RUN = "INSERT INTO runs (id, number, team, tokens, seconds) VALUES (?, 0, '', 0, 0)"
_SET_RUN = f"UPDATE runs SET ({STATUS_COLUMNS}) = ({', '.join('?' * len(COLUMNS))}) WHERE place = ?"
_note_bodies = Insert("bodies", 2, "ON CONFLICT DO NOTHING")


class RunRows:
    """The rows of one run, and the events and bodies that are newer than its row."""

    __slots__ = ("_bodies", "_events", "_start", "_status")

    def __init__(self, pen: sqlite3.Cursor, run_id: str) -> None:
        """Read the run from the database, or add it, within the caller's transaction."""
        found = read_run(pen, run_id)
        self._events: list[Event] = []
        self._bodies: dict[Body, int] = {}
        if found is None:
            place, self._status = pen.execute(_ADD_RUN, (run_id,)).lastrowid or 0, RunStatus()
        else:
            place, self._status = found
            self._events = read_events(pen, run_id, place, self._status.number)
            self._bodies = read_places(pen, place, self._status.number)
        self._start = place * NUMBERS

    def add(self, batch: Batch) -> list[Column]:
        """Add a batch, and return the columns of its rows, one row after the other."""
        events, start = batch.events, self._start
        held = self._new(batch) if batch.bodies else []
        columns: list[Column] = []
        for index, event in enumerate(events):
            columns += to_row(start + event.number, event, held[index] if index < len(held) else None)
        self._events += events
        return columns

    def _new(self, batch: Batch) -> list[str]:
        """The bodies that are new: each event takes one along, and the last one all that are left."""
        events, known = batch.events, self._bodies
        held: list[str] = []
        for body, text in batch.bodies.items():
            if body not in known:
                event = events[len(held)] if len(held) < len(events) else events[-1]
                known[body] = self._start + event.number
                held.append(hold(body, text))
        if len(held) > len(events):
            last = len(events) - 1
            held[last:] = [together(held[last:])]
        return held

    def is_due(self, events: Sequence[Event]) -> bool:
        """Whether the run's row is to be written with these: when its status changes, and else only now and then."""
        if len(self._events) >= _UNSAVED:
            return True
        for event in events:  # noqa: SIM110 - a generator takes longer than most batches
            if event.fact.__class__ in TURNS:
                return True
        return False

    def save(self, pen: sqlite3.Cursor) -> None:
        """Write the run's status and where its bodies are, within the caller's transaction."""
        fold(self._events, self._status)
        pen.execute(_SET_RUN, (*self._status.columns(), self._start // NUMBERS))
        bodies = [(bytes.fromhex(body), position) for body, position in self._bodies.items()]
        if _note_bodies(pen, list(chain.from_iterable(bodies))) < len(bodies):
            _drop_doubles(pen, bodies)
        self._events, self._bodies = [], {}


def _drop_doubles(pen: sqlite3.Cursor, bodies: Sequence[tuple[bytes, int]]) -> None:
    """Take those out of their rows that lie in another row already; a note that leads nowhere is corrected instead."""
    doubles: defaultdict[int, list[Body]] = defaultdict(list)
    for one, position in bodies:
        (noted,) = pen.execute("SELECT position FROM bodies WHERE hash = ?", (one,)).fetchone()
        if noted == position:
            continue
        if lies_at(pen, one.hex(), noted):
            doubles[position].append(one.hex())
        else:
            pen.execute("UPDATE bodies SET position = ? WHERE hash = ?", (position, one))
    for position, gone in doubles.items():
        (texts,) = pen.execute("SELECT bodies FROM events WHERE position = ?", (position,)).fetchone()
        left = [hold(body, text) for body, text in split(texts) if body not in gone]
        pen.execute("UPDATE events SET bodies = ? WHERE position = ?", (together(left) if left else None, position))
