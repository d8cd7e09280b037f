"""Databases of older layouts: read whole, upgraded alone, and never changed in place.  # D-08"""

import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from teamwright import Engine
from teamwright.errors import JournalUnavailable
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.journal.sqlite.layout import check_layout
from teamwright.journal.sqlite.migrations import MIGRATIONS, migrate
from teamwright.testing.journal import commit, events
from tests.histories.layouts import SAID, layouts, yard

LAYOUTS = sorted(layouts())


def schema(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    return connection.execute("SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return found


def test_there_is_a_database_of_every_layout() -> None:  # D-08
    assert list(range(1, len(MIGRATIONS) + 1)) == LAYOUTS


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_never_changes_in_place(layout: int, tmp_path: Path) -> None:  # D-08
    kept = sqlite3.connect(shutil.copy(layouts()[layout], tmp_path / "kept.db"))
    made = sqlite3.connect(":memory:", isolation_level=None)
    migrate("made", 0, made.execute, MIGRATIONS[:layout])
    assert schema(made) == schema(kept)
    if layout == len(MIGRATIONS):
        check_layout(made, "made")
    kept.close()
    made.close()


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_runs_of_every_layout_are_read_resumed_forked_and_deleted(layout: int, tmp_path: Path) -> None:  # D-08
    path = tmp_path / "journal.db"
    shutil.copyfile(layouts()[layout], path)
    asked: list[str] = []
    async with Engine(path) as engine:
        assert [(run.id, run.status) for run in await engine.runs.list()] == [
            ("stopped", "interrupted"), ("ended", "completed"),
        ]  # fmt: skip
        assert [one.content for one in (await engine.runs.result("ended")).messages] == SAID
        resumed = await engine.resume("stopped", team=yard(asked))
        assert [one.content for one in resumed.messages] == SAID
        assert asked == ["c"]
        forked = await engine.fork("ended", team=yard(asked))
        assert [one.content for one in forked.messages] == SAID
        assert asked == ["c"]
        await engine.journal.delete(["ended", "stopped"])
        assert [one.content for one in (await engine.runs.result(forked.run_id)).messages] == SAID
    assert version(path) == len(MIGRATIONS)


async def test_an_upgrade_is_refused_while_another_process_has_the_database_open(tmp_path: Path) -> None:  # D-08
    path = tmp_path / "journal.db"
    shutil.copyfile(layouts()[1], path)
    program = textwrap.dedent("""
        import sqlite3, sys
        older = sqlite3.connect(sys.argv[1], isolation_level=None)
        older.execute("SELECT * FROM runs").fetchall()
        print("open", flush=True)
        sys.stdin.readline()
        older.execute("INSERT INTO events VALUES (1, 1.5, '', '', 'custom', '{}', NULL)")
        print("wrote", flush=True)
        sys.stdin.readline()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as older:
        assert older.stdin is not None
        assert older.stdout is not None
        assert older.stdout.readline() == "open\n"
        with pytest.raises(JournalUnavailable, match=r"another process still has it open.*end that process"):
            await SqliteJournal(path, busy_timeout=0.2).open()
        assert version(path) == 1
        older.stdin.write("\n")
        older.stdin.flush()
        assert older.stdout.readline() == "wrote\n"  # it continues unchanged
        waiting = threading.Timer(0.5, lambda: older.stdin and older.stdin.close())
        waiting.start()
        journal = SqliteJournal(path, busy_timeout=20)
        await journal.open()  # it waits, and continues when the other has ended
        await journal.close()
        waiting.join()
    assert version(path) == len(MIGRATIONS)


def test_processes_that_upgrade_one_database_at_once_all_succeed(tmp_path: Path) -> None:  # D-08
    path = tmp_path / "journal.db"
    shutil.copyfile(layouts()[1], path)
    program = textwrap.dedent("""
        import anyio, sys
        from teamwright.journal.sqlite.journal import SqliteJournal

        async def main():
            journal = SqliteJournal(sys.argv[1], busy_timeout=30)
            await journal.open()
            assert len(await journal.runs()) == 2
            await journal.close()

        anyio.run(main)
    """)
    started = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(3)]
    assert [one.wait(50) for one in started] == [0, 0, 0]
    assert version(path) == len(MIGRATIONS)


async def test_a_statement_that_is_refused_is_not_called_damage(tmp_path: Path) -> None:  # D-08
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    await journal.open()
    await commit(journal, Batch(events("run", [1]), {}))
    journal._database.writer.execute("ALTER TABLE events RENAME TO happenings")
    with pytest.raises(JournalUnavailable, match="another version of Teamwright may have changed it"):
        await journal.read("run")
    await journal.close()
