"""The database's layout as a list of steps. A step that was released is never edited: the next one mends it. So a step
uses nothing of the project, which changes.

`PRAGMA user_version` counts the steps that a database has had.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

from teamwright.errors import JournalTooNew

Execute = Callable[..., Any]
"""Runs a statement with its parameters, and returns the rows that come of it."""
Migration = Callable[[Execute], None]


def create(execute: Execute) -> None:
    """The first layout.

    `position` is the run's place times 2³² plus the event's number: one key that clusters a run's events, grows at its
    end, and refuses a number that exists. A run's row tells how it stood at event `number`. A body's text stands apart
    from the index of hashes, so that new texts fill whole pages.
    """
    execute(
        "CREATE TABLE runs (place INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, number INTEGER NOT NULL,"
        " team TEXT NOT NULL, started REAL, status TEXT, stop_reason TEXT, tokens INTEGER NOT NULL, usd REAL,"
        " seconds REAL NOT NULL, since REAL, last REAL)"
    )
    execute(
        "CREATE TABLE events (position INTEGER PRIMARY KEY, time REAL NOT NULL, scope TEXT NOT NULL,"
        " place TEXT NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL, version INTEGER)"
    )
    execute("CREATE TABLE bodies (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, text TEXT NOT NULL)")
    execute("CREATE TABLE inbox (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, data TEXT NOT NULL)")
    execute("CREATE INDEX inbox_of_run ON inbox (run_id, id)")


def put_bodies_beside_events(execute: Execute) -> None:
    """A body lies in the row of an event, so that a commit mostly writes one page; `bodies` tells in which.

    A run's bodies are noted there as its own row is written: up to event `number`. Later ones are only in their rows.
    """
    places: dict[str, int] = {}
    for position, data in execute("SELECT position, data FROM events ORDER BY position"):
        for one in re.findall(r"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])", data):
            places.setdefault(one, position)
    execute("ALTER TABLE events ADD COLUMN bodies TEXT")
    execute("ALTER TABLE bodies RENAME TO texts")
    execute("CREATE TABLE bodies (hash BLOB PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID")
    for position, hashes in groupby(places, key=places.__getitem__):
        found: list[str] = []
        for one in hashes:
            for (text,) in execute("SELECT text FROM texts WHERE hash = ?", (bytes.fromhex(one),)):
                found.append(one + text)
                execute("INSERT INTO bodies VALUES (?, ?)", (bytes.fromhex(one), position))
        if found:
            execute("UPDATE events SET bodies = ? WHERE position = ?", ("\x1e".join(found), position))
    execute("DROP TABLE texts")


LAYOUT: dict[str, tuple[str, str | None]] = {
    "runs": ("table", "place,id,number,team,started,status,stop_reason,tokens,usd,seconds,since,last"),
    "events": ("table", "position,time,scope,place,kind,data,version,bodies"),
    "bodies": ("table", "hash,position"),
    "inbox": ("table", "id,run_id,data"),
    "inbox_of_run": ("index", None),
}
"""What the last step leaves: tables with their columns, and indexes."""

MIGRATIONS: tuple[Migration, ...] = (create, put_bodies_beside_events)


def migrate(name: str, version: int, execute: Execute, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Take the database `name` from `version` to the newest layout, within the caller's transaction."""
    if version > len(migrations):
        raise JournalTooNew(
            f"The journal {name!r} has layout {version} and this version of Teamwright knows up to {len(migrations)}:"
            " update Teamwright, or set TEAMWRIGHT_HOME to another folder."
        )
    for number, migration in enumerate(migrations[version:], start=version + 1):
        migration(execute)
        execute(f"PRAGMA user_version = {number}")
