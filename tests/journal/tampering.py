"""Ways to damage a journal: every column of every table, in every way that a disk, a bug or a stranger could.

`tamperings` lists them for a database; each is one change that a connection can make.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from teamwright.journal.codec import NUMBERS

TABLES = {
    "runs": ("place", "id", "number", "team", "started", "status", "stop_reason", "tokens", "usd", "seconds", "since",
             "last"),
    "events": ("position", "time", "scope", "place", "kind", "data", "version", "bodies"),
    "bodies": ("hash", "position"),
    "inbox": ("id", "run_id", "data"),
}  # fmt: skip
KEYS = {"runs": "place", "events": "position", "bodies": "hash", "inbox": "id"}
DEEP = '{"data":' * 3000 + "1" + "}" * 3000


@dataclass(frozen=True)
class Tampering:
    """One change: where, how, and the statement that makes it."""

    table: str
    column: str
    how: str
    run_id: str
    apply: Callable[[sqlite3.Connection], object]

    def __str__(self) -> str:
        return f"{self.table}.{self.column} of {self.run_id}: {self.how}"


def loosened(source: Path, target: Path) -> Path:
    """A copy of a database that takes any value anywhere, as one does that was not written by SQLite."""
    connection, loose = sqlite3.connect(source), sqlite3.connect(target)
    connection.backup(loose)
    connection.close()
    loose.execute("PRAGMA writable_schema = ON")
    loose.execute("UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '')")
    loose.commit()
    loose.close()
    return target


def tamperings(path: Path) -> list[Tampering]:
    """All changes to a database."""
    connection = sqlite3.connect(path)
    runs: dict[int, str] = dict(connection.execute("SELECT place, id FROM runs"))
    found: list[Tampering] = []
    for table, columns in TABLES.items():
        key = KEYS[table]
        rows = connection.execute(f"SELECT {key}, {', '.join(columns)} FROM {table} ORDER BY {key}").fetchall()
        for row in _sample(table, columns, rows):
            run_id = _run_of(table, dict(zip(columns, row[1:], strict=True)), runs)
            found += _of_row(table, key, columns, row, run_id)
        found += _of_table(table, key, rows, columns, runs)
    connection.close()
    return found


def _sample(table: str, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Each kind of event in each run once, and few of what is all alike."""
    if table != "events":
        return rows[:12]
    kinds: dict[tuple[int, str], tuple[Any, ...]] = {}
    for row in rows:
        kinds.setdefault((row[0] // NUMBERS, row[1 + columns.index("kind")]), row)
    return list(kinds.values())


def _run_of(table: str, row: dict[str, Any], runs: dict[int, str]) -> str:
    match table:
        case "runs":
            return row["id"]
        case "inbox":
            return row["run_id"]
        case _:
            return runs[row["position"] // NUMBERS]


def _of_row(table: str, key: str, columns: tuple[str, ...], row: tuple[Any, ...], run_id: str) -> Iterator[Tampering]:
    for column, value in zip(columns, row[1:], strict=True):
        for how, other in (*_values(value), *_fields(column, value)):
            yield Tampering(table, column, how, run_id, _update(table, column, key, row[0], other))
        text = f"UPDATE {table} SET {column} = CAST(x'6f6bfffe' AS TEXT) WHERE {key} = ?"
        yield Tampering(table, column, "no UTF-8", run_id, lambda c, text=text: c.execute(text, (row[0],)))


def _update(table: str, column: str, key: str, row: Any, value: Any) -> Callable[[sqlite3.Connection], object]:
    return lambda connection: connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, row))


def _values(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values for any column."""
    yield from {
        "null": None, "negative": -1, "zero": 0, "huge": 2**62, "largest": 2**63 - 1, "smallest": -(2**63),
        "a float": 1e308, "infinite": float("inf"), "empty": "", "garbage": "garbage \x1b[31m\n\x00",
        "long": "9" * 5000, "a blob": b"\xff\xfe\x00", "an empty blob": b"", "deep": "[" * 5000, "slashes": "/" * 4000,
        "JSON": "{}", "an unknown word": "team.dreamt",
    }.items()  # fmt: skip
    if isinstance(value, str | bytes):
        yield "truncated", value[: len(value) // 2]
        yield "doubled", value * 2
    if isinstance(value, int | float):
        yield "more", value + 1


def _fields(column: str, value: Any) -> Iterator[tuple[str, str]]:
    """Other values for each field of a fact or a letter, and unknown ones."""
    if column != "data" or not isinstance(value, str):
        return
    fact = json.loads(value)
    yield "an unknown field", json.dumps(fact | {"mood": 1})
    yield "deep in a field", DEEP
    for name in fact:
        yield f"without {name}", json.dumps({key: one for key, one in fact.items() if key != name})
        for other in (None, -1, 2**63, 10**30, 1e308, "", "x", "\ud800", [], {}, ["x"], {"x": 1}, True, "0" * 40):
            yield f"{name} = {other!r}", json.dumps(fact | {name: other})


def _of_table(
    table: str, key: str, rows: list[tuple[Any, ...]], columns: tuple[str, ...], runs: dict[int, str]
) -> Iterator[Tampering]:
    """Rows that are gone, or have changed their places with the next one of their run or with any other."""
    for row in _sample(table, columns, rows):
        run_id = _run_of(table, dict(zip(columns, row[1:], strict=True)), runs)
        gone = f"DELETE FROM {table} WHERE {key} = ?"
        yield Tampering(table, key, "row deleted", run_id, lambda c, s=gone, k=row[0]: c.execute(s, (k,)))
        later = [
            one
            for one in rows[rows.index(row) + 1 :]
            if table == "runs" or _run_of(table, dict(zip(columns, one[1:], strict=True)), runs) == run_id
        ]
        for how, other in (("next", later[:1]), ("last", later[-1:])):
            for one in other:
                yield Tampering(table, key, f"swapped with the {how}", run_id, _swap(table, key, row[0], one[0]))
    everything = f"DELETE FROM {table}"
    yield Tampering(table, key, "all rows deleted", "", lambda connection: connection.execute(everything))


def _swap(table: str, key: str, one: Any, other: Any) -> Callable[[sqlite3.Connection], object]:
    def swap(connection: sqlite3.Connection) -> None:
        away = b"away" if isinstance(one, bytes) else -77
        for old, new in ((one, away), (other, one), (away, other)):
            connection.execute(f"UPDATE {table} SET {key} = ? WHERE {key} = ?", (new, old))

    return swap
