"""The lower bound of every figure: the cost of one bare asyncio task and one bare SQLite commit on this machine."""

import asyncio
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.cases import DATABASE_RUNS, FLOOR_FULL, FLOOR_NORMAL, FLOOR_TASK
from bench.workload import texts

TASKS = 20_000
COMMITS = 1_000


async def seconds_per_unit(name: str, folder: Path) -> float:
    """Measure one row of the floor."""
    match name:
        case _ if name == FLOOR_TASK:
            return await _one_task()
        case _ if name == FLOOR_NORMAL:
            return _one_commit(folder / "floor.db", "NORMAL")
        case _ if name == FLOOR_FULL:
            return _one_commit(folder / "floor.db", "FULL")
        case _:
            raise ValueError(f"the floor has no row {name!r}")


def fill(database: Path) -> None:
    """Store the replies of the database case as bare rows, the minimum."""
    with _table(database, "FULL") as connection, connection:
        connection.executemany(
            "INSERT INTO reply (body) VALUES (?)", [(text,) for text in texts(sum(n for _, n in DATABASE_RUNS))]
        )


async def _one_task() -> float:
    async def nothing() -> None:
        pass

    started = time.perf_counter()
    for _ in range(TASKS):
        await asyncio.create_task(nothing())
    return (time.perf_counter() - started) / TASKS


def _one_commit(database: Path, synchronous: str) -> float:
    rows = [(text,) for text in texts(COMMITS)]
    with _table(database, synchronous) as connection:
        started = time.perf_counter()
        for row in rows:
            connection.execute("BEGIN")
            connection.execute("INSERT INTO reply (body) VALUES (?)", row)
            connection.execute("COMMIT")
        return (time.perf_counter() - started) / COMMITS


@contextmanager
def _table(database: Path, synchronous: str) -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("CREATE TABLE reply (number INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        yield connection
