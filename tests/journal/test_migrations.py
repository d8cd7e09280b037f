import sqlite3
from pathlib import Path

import pytest

from teamwright.errors import JournalTooNew
from teamwright.journal.migrations import MIGRATIONS, Execute, migrate
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite import SqliteJournal
from teamwright.testing.journal import commit, events


def version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def test_each_step_is_taken_once() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    taken: list[str] = []

    def first(execute: Execute) -> None:
        taken.append("first")
        execute("CREATE TABLE one (x)")

    def second(execute: Execute) -> None:
        taken.append("second")
        execute("ALTER TABLE one ADD COLUMN y")

    for steps in ((first,), (first, second), (first, second)):
        migrate("x", version(connection), connection.execute, steps)
        assert version(connection) == len(steps)
    assert taken == ["first", "second"]
    connection.close()


async def test_an_older_program_refuses_a_newer_database_in_words(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    await journal.open()
    await commit(journal, Batch(events("run", [1]), {}))
    await journal.close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(JournalTooNew, match="update Teamwright"):
        await journal.open()
    assert path.read_bytes() == before


async def test_a_new_database_has_the_newest_layout(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    await journal.open()
    connection = sqlite3.connect(tmp_path / "journal.db")
    assert version(connection) == len(MIGRATIONS)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    connection.close()
    assert journal._database.writer.execute("PRAGMA synchronous").fetchone() == (2,)
    await journal.close()
