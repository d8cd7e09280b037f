import sqlite3
from pathlib import Path

import pytest

from teamwright.errors import JournalTooNew
from teamwright.journal.encoder import to_text
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.journal.sqlite.layout import APPLICATION_ID
from teamwright.journal.sqlite.migrations import MIGRATIONS, Execute, migrate
from teamwright.testing.journal import body, commit, events
from teamwright.values.events.agent import AgentReturned
from teamwright.values.events.run import Origin, RunStarted


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


async def test_an_older_program_refuses_a_newer_database_with_a_clear_message(tmp_path: Path) -> None:
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


async def test_bodies_of_the_first_layout_move_beside_their_events(tmp_path: Path) -> None:  # law 9
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path, isolation_level=None)
    migrate("x", 0, connection.execute, MIGRATIONS[:1])
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    texts = body("one") | body("two")
    for place, run in enumerate(("first", "second"), start=1):
        connection.execute("INSERT INTO runs (id, number, team, tokens, seconds) VALUES (?, 2, '', 0, 0)", (run,))
        for number, one in enumerate(texts, start=1):
            row = ((place << 32) + number, 1.5, "s", "p", "agent.returned", to_text(AgentReturned(body=one)), None)
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    for one, text in (texts | body("nobody refers to it")).items():
        connection.execute("INSERT INTO bodies (hash, text) VALUES (?, ?)", (bytes.fromhex(one), text))
    connection.close()
    journal = SqliteJournal(path)
    await journal.open()
    assert await journal.bodies(texts) == texts
    assert [event.fact for event in await journal.read("second")] == [AgentReturned(body=one) for one in texts]
    await journal.delete(["first"])
    assert await journal.bodies(texts) == texts
    assert journal._database.writer.execute("SELECT count(*) FROM bodies").fetchone() == (2,)
    await journal.close()


async def test_child_runs_of_an_older_layout_get_their_parent(tmp_path: Path) -> None:  # law 9
    path = tmp_path / "journal.db"
    connection = sqlite3.connect(path, isolation_level=None)
    migrate("x", 0, connection.execute, MIGRATIONS[:3])
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for place, origin in enumerate((None, Origin(run_id="run-1", number=4, how="place")), start=1):
        fact = RunStarted(team="t", task="0" * 40, manifest="0" * 40, seed=1, origin=origin)
        run = (f"run-{place}", 1, "t", 0, 0)
        connection.execute("INSERT INTO runs (id, number, team, tokens, seconds) VALUES (?, ?, ?, ?, ?)", run)
        row = ((place << 32) + 1, 1.5, "", "", "run.started", to_text(fact), None, None)
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    journal = SqliteJournal(path)
    await journal.open()
    assert [(run.id, run.parent) for run in await journal.children(["run-1"])] == [("run-2", "run-1")]
    await journal.close()
