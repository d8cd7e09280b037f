"""Deletes runs from the database, but no body that another run refers to."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from teamwright.journal.decoder import is_hash, is_place
from teamwright.journal.encoder import NUMBERS, join_bodies, pack_body, references, split_bodies
from teamwright.journal.sqlite.queries import is_stored_at, read_places
from teamwright.values.events.body import Body


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
