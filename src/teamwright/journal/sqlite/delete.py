"""Deletes runs from the database, and nothing that another run refers to."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from teamwright.journal.decoder import is_hash, is_place
from teamwright.journal.encoder import NUMBERS, hold, references, split, together
from teamwright.journal.sqlite.queries import lies_at, read_places
from teamwright.values.events.body import Body


def delete_runs(pen: sqlite3.Cursor, run_ids: Collection[str]) -> None:
    """Delete all rows of these runs, within the caller's transaction."""
    places = _places(pen, run_ids)
    bodies = _only_there(pen, places)
    for position, moving in _wanted_elsewhere(pen, places, bodies).items():
        texts = _bodies_at(pen, position)
        for body in moving:
            texts |= {body: _bodies_at(pen, bodies[body])[body]}
            pen.execute("REPLACE INTO bodies VALUES (?, ?)", (bytes.fromhex(body), position))
            del bodies[body]
        pen.execute(
            "UPDATE events SET bodies = ? WHERE position = ?", (together(hold(*one) for one in texts.items()), position)
        )
    pen.executemany("DELETE FROM bodies WHERE hash = ?", [(bytes.fromhex(body),) for body in bodies])
    for place in places:
        pen.execute("DELETE FROM events WHERE position >= ? AND position < ?", (place * NUMBERS, (place + 1) * NUMBERS))
    pen.executemany("DELETE FROM runs WHERE id = ?", [(run_id,) for run_id in run_ids])
    pen.executemany("DELETE FROM inbox WHERE run_id = ?", [(run_id,) for run_id in run_ids])


def _places(pen: sqlite3.Cursor, run_ids: Collection[str]) -> set[int]:
    found = (pen.execute("SELECT place FROM runs WHERE id = ?", (run_id,)).fetchone() for run_id in run_ids)
    return {row[0] for row in found if row and is_place(row[0])}


def _only_there(pen: sqlite3.Cursor, places: Collection[int]) -> dict[Body, int]:
    """The bodies that lie in rows of these runs, and where; not those that were noted to lie in another run's."""
    found = {body: position for place in places for body, position in read_places(pen, place).items()}
    bodies = {body: position for body, position in found.items() if is_hash(body)}
    for body in list(bodies):
        noted = pen.execute("SELECT position FROM bodies WHERE hash = ?", (bytes.fromhex(body),)).fetchone()
        if noted and lies_at(pen, body, noted[0]) and noted[0] // NUMBERS not in places:
            del bodies[body]
    return bodies


def _wanted_elsewhere(pen: sqlite3.Cursor, places: Collection[int], bodies: Collection[Body]) -> dict[int, set[Body]]:
    """Which of these bodies events of other runs refer to, by the first such event."""
    found: dict[int, set[Body]] = {}
    left = set(bodies)
    if left:
        for position, data in pen.execute("SELECT position, data FROM events ORDER BY position"):
            if position // NUMBERS not in places and (here := left.intersection(references(data))):
                found[position] = here
                left -= here
    return found


def _bodies_at(pen: sqlite3.Cursor, position: int) -> dict[Body, str]:
    (texts,) = pen.execute("SELECT bodies FROM events WHERE position = ?", (position,)).fetchone()
    return dict(split(texts)) if texts else {}
