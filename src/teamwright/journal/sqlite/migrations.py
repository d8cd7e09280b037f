"""The migrations of the database. A released migration is never edited; the next one corrects it. So a migration uses
no other code of the project, which may change.

`PRAGMA user_version` is the number of migrations that a database has had.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import groupby
from typing import Any

from teamwright.errors import JournalTooNew

Execute = Callable[..., Any]
"""Executes a statement with parameters and returns its rows."""
Migration = Callable[[Execute], None]


def create(execute: Execute) -> None:
    """Create the first layout.

    `position` is the run's place times 2³² plus the event's number: one key that clusters a run's events, grows at its
    end, and rejects a number that exists. A run's row is its status at event `number`. The text of a body is separate
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
    """Store bodies in the rows of events, so that most commits write one page; the table `bodies` indexes them.

    A run's bodies are indexed when its own row is saved: up to event `number`. Later ones are only in their rows.
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


def add_conversations_and_notes(execute: Execute) -> None:
    """Add the conversation of each run, by which its turns are found, and the notes that agents keep across runs.

    `key` identifies the call that wrote a note, and `forgotten` the call that removed it; a note that was removed has
    no text. The full-text index `notes_search` is created with the first note.
    """
    execute("ALTER TABLE runs ADD COLUMN conversation TEXT NOT NULL DEFAULT ''")
    execute("CREATE INDEX turns_of_conversation ON runs (conversation, place) WHERE conversation <> ''")
    execute(
        "CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, memory TEXT NOT NULL, text TEXT NOT NULL,"
        " author TEXT NOT NULL, run_id TEXT NOT NULL, time REAL NOT NULL, key TEXT NOT NULL UNIQUE, forgotten TEXT)"
    )
    execute("CREATE INDEX notes_of_memory ON notes (memory, id) WHERE forgotten IS NULL")


def add_parents(execute: Execute) -> None:
    """Add the run of which a run is a branch, and the process that resumed a run last."""
    execute("ALTER TABLE runs ADD COLUMN parent TEXT NOT NULL DEFAULT ''")
    execute("ALTER TABLE runs ADD COLUMN driver TEXT NOT NULL DEFAULT ''")
    placed = execute(
        "SELECT runs.place, data FROM runs JOIN events ON position = runs.place * 4294967296 + 1"
        """ WHERE data LIKE '%"how":"place"%'"""
    )
    for place, data in list(placed):
        if found := re.search(r'"origin":\{"run_id":"([^"]+)"', data):
            execute("UPDATE runs SET parent = ? WHERE place = ?", (found[1], place))
    execute("CREATE INDEX children_of_run ON runs (parent, place) WHERE parent <> ''")


def add_token_rates(execute: Execute) -> None:
    """Add the latest requests to each model, which its tokens per byte are learnt from."""
    execute("CREATE TABLE token_rates (model TEXT PRIMARY KEY, samples TEXT NOT NULL) WITHOUT ROWID")


LAYOUT: dict[str, tuple[str, str | None]] = {
    "runs": (
        "table",
        "place,id,number,team,started,status,stop_reason,tokens,usd,seconds,since,last,conversation,parent,driver",
    ),
    "events": ("table", "position,time,scope,place,kind,data,version,bodies"),
    "bodies": ("table", "hash,position"),
    "inbox": ("table", "id,run_id,data"),
    "inbox_of_run": ("index", None),
    "turns_of_conversation": ("index", None),
    "children_of_run": ("index", None),
    "notes": ("table", "id,memory,text,author,run_id,time,key,forgotten"),
    "notes_of_memory": ("index", None),
    "token_rates": ("table", "model,samples"),
}
"""The layout after the last migration: tables with their columns, and indexes."""

SEARCH = "notes_search"
"""The full-text index of the notes, which SQLite keeps in several tables whose names begin with its own."""
CREATE_SEARCH = f"CREATE VIRTUAL TABLE IF NOT EXISTS {SEARCH} USING fts5 (text, content='notes', content_rowid='id')"

MIGRATIONS: tuple[Migration, ...] = (
    create,
    put_bodies_beside_events,
    add_conversations_and_notes,
    add_parents,
    add_token_rates,
)


def migrate(name: str, version: int, execute: Execute, migrations: tuple[Migration, ...] = MIGRATIONS) -> None:
    """Migrate the database `name` from `version` to the latest layout, within the caller's transaction."""
    if version > len(migrations):
        raise JournalTooNew(
            f"The journal {name!r} has layout {version} and this version of Teamwright knows up to {len(migrations)}:"
            " update Teamwright, or set TEAMWRIGHT_HOME to another folder."
        )
    for number, migration in enumerate(migrations[version:], start=version + 1):
        migration(execute)
        execute(f"PRAGMA user_version = {number}")
