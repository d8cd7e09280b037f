"""The layout of a database and its upgrade by a made-up step: read whole, upgraded alone.  # D-08"""

import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Team
from teamwright.errors import JournalTooNew, JournalUnavailable
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite import database
from teamwright.journal.sqlite.database import LAYOUT, MIGRATIONS, Execute, check_layout, migrate
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import commit, events

SAID = ["a: twelve metres, as long as a plank", "b: twelve metres, as long as a plank", "c: sawn"]
NEXT = len(MIGRATIONS) + 1
KEPT = Path(__file__).parent / "layout-1.sql"
NEW_COLUMN = "ALTER TABLE runs ADD COLUMN queue TEXT NOT NULL DEFAULT ''"


def next_layout() -> dict[str, tuple[str, str | None]]:
    kind, columns = LAYOUT["runs"]
    return LAYOUT | {"runs": (kind, f"{columns},queue")}


def add_queues(execute: Execute) -> None:
    execute(NEW_COLUMN)
    execute("UPDATE runs SET queue = 'first' WHERE id = 'ended'")


@pytest.fixture
def with_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version of Teamwright that knows one more layout."""
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, add_queues))
    monkeypatch.setattr(database, "LAYOUT", next_layout())


def yard(asked: list[str], stop: str = "") -> Team:
    """A team of three that answers with `SAID`; a member that is to hang never answers."""

    def agent(name: str, said: str) -> FunctionAgent:
        async def respond(task: str) -> str:
            asked.append(name)
            if name == stop:
                await anyio.sleep_forever()
            return said

        return FunctionAgent(name, respond)

    return Team("yard", members=[agent(said[0], said) for said in SAID])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with a run that has ended and one whose process was stopped while `c` was at work."""
    path = tmp_path_factory.mktemp("recorded") / "journal.db"

    async def record() -> None:
        async with Engine(path) as engine:
            await engine.run(yard([]), "Measure the yard.", run_id="ended")
            asked: list[str] = []
            handle = await engine.start(yard(asked, stop="c"), "Measure the yard.", run_id="stopped")
            while "c" not in asked:  # noqa: ASYNC110 - the agents know nothing of this
                await anyio.sleep(0.01)
            handle.interrupt()
            await handle.result()

    anyio.run(record)
    return path


@pytest.fixture
def path(recorded: Path, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(recorded, tmp_path / "journal.db"))


def version(found: sqlite3.Connection | Path) -> int:
    if isinstance(found, Path):
        with closing(sqlite3.connect(found)) as connection:
            return version(connection)
    return found.execute("PRAGMA user_version").fetchone()[0]


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


def test_a_layout_never_changes_in_place() -> None:  # D-08
    made = sqlite3.connect(":memory:", isolation_level=None)
    migrate("made", 0, made.execute, MIGRATIONS[:1])
    schema = made.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").fetchall()
    assert "".join(f"{sql};\n" for (sql,) in schema) == KEPT.read_text()
    migrate("made", 1, made.execute, MIGRATIONS)
    check_layout(made, "made")
    made.close()


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


@pytest.mark.usefixtures("with_step")
async def test_runs_of_an_older_layout_are_read_resumed_forked_and_deleted(path: Path) -> None:  # D-08
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
        with closing(sqlite3.connect(path)) as connection:
            queues = connection.execute("SELECT id, queue FROM runs WHERE queue <> ''").fetchall()
        assert queues == [("ended", "first")]
        await engine.journal.delete(["ended", "stopped"])
        assert [one.content for one in (await engine.runs.result(forked.run_id)).messages] == SAID
    assert version(path) == NEXT


@pytest.mark.usefixtures("with_step")
async def test_an_upgrade_is_refused_while_another_process_has_the_database_open(path: Path) -> None:  # D-08
    program = textwrap.dedent("""
        import sqlite3, sys
        older = sqlite3.connect(sys.argv[1], isolation_level=None)
        older.execute("SELECT * FROM runs").fetchall()
        print("open", flush=True)
        sys.stdin.readline()
        older.execute("INSERT INTO events VALUES (1, 1.5, '', '', 'custom', '{}', NULL, NULL)")
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
        assert version(path) == len(MIGRATIONS)
        older.stdin.write("\n")
        older.stdin.flush()
        assert older.stdout.readline() == "wrote\n"  # it continues unchanged
        waiting = threading.Timer(0.5, lambda: older.stdin and older.stdin.close())
        waiting.start()
        journal = SqliteJournal(path, busy_timeout=20)
        await journal.open()  # it waits, and continues when the other has ended
        await journal.close()
        waiting.join()
    assert version(path) == NEXT


def test_processes_that_upgrade_one_database_at_once_all_succeed(path: Path) -> None:  # D-08
    program = textwrap.dedent(f"""
        import anyio, sys
        from teamwright.journal.sqlite import database
        from teamwright.journal.sqlite.journal import SqliteJournal

        def add_queues(execute):
            execute({NEW_COLUMN!r})

        async def main():
            database.MIGRATIONS = (*database.MIGRATIONS, add_queues)
            database.LAYOUT = {next_layout()!r}
            journal = SqliteJournal(sys.argv[1], busy_timeout=30)
            await journal.open()
            assert len(await journal.runs()) == 2
            await journal.close()

        anyio.run(main)
    """)
    started = [subprocess.Popen([sys.executable, "-c", program, str(path)]) for _ in range(3)]
    assert [one.wait(50) for one in started] == [0, 0, 0]
    assert version(path) == NEXT


async def test_a_statement_that_is_refused_is_not_called_damage(tmp_path: Path) -> None:  # D-08
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    await journal.open()
    await commit(journal, Batch(events("run", [1]), {}))
    journal._database.writer.execute("ALTER TABLE events RENAME TO happenings")
    with pytest.raises(JournalUnavailable, match="another version of Teamwright may have changed it"):
        await journal.read("run")
    await journal.close()
