"""A database that is lost while runs are recorded in it stops them, and nothing that it held is lost.  # D-03"""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, Team
from teamwright.errors import JournalError, JournalUnavailable
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import body, commit, events
from teamwright.values.people.interventions import Pause
from tests.journal.journals import opened


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        one.unlink()


def delete_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def delete_index(path: Path) -> None:
    Path(f"{path}-shm").unlink()


def move_away(path: Path) -> None:
    path.rename(path.parent / "moved.db")


def replace(path: Path) -> None:
    other = path.parent / "other.db"
    sqlite3.connect(other).close()
    other.write_bytes(b"something else")
    other.replace(path)


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


def replace_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("moved"))
    path.parent.mkdir()


LOSSES: list[Callable[[Path], None]] = [
    delete, delete_all, delete_log, delete_index, move_away, replace, remove_folder, replace_folder,
]  # fmt: skip


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_lost_database_is_reported_at_the_next_commit_and_rescued(
    tmp_path: Path, lose: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:  # D-03
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = tmp_path / "home" / "journal.db"
    async with opened(path) as journal:
        async with journal.drive("run"):
            await commit(journal, Batch(events("run", [1]), body("before")))
            lose(path)
            with pytest.raises(JournalUnavailable, match=r"while it was in use.*its content is saved in") as told:
                await commit(journal, Batch(events("run", [2]), body("after")))
            with pytest.raises(JournalUnavailable):
                await commit(journal, Batch(events("run", [3]), {}))
            with pytest.raises(JournalUnavailable):
                await journal.send("run", Pause())
        with pytest.raises(JournalUnavailable):
            await commit(journal, Batch(events("other", [1]), {}))
    (saved,) = tmp_path.glob("**/rescue-*/journal.db")
    assert str(saved) in str(told.value)
    assert f"TEAMWRIGHT_HOME={saved.parent} teamwright runs list" in str(told.value)
    assert (saved.stat().st_mode & 0o777, saved.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    async with opened(saved) as rescued:
        assert await rescued.read("run") == events("run", [1, 2])
        assert await rescued.bodies(body("before") | body("after")) == body("before") | body("after")
        async with rescued.drive("run"):
            await commit(rescued, Batch(events("run", [3]), {}))


@pytest.mark.parametrize("length", [0, 100, 4096, 3 * 4096])
async def test_a_database_that_is_cut_off_is_reported(tmp_path: Path, length: int) -> None:  # D-03
    path = tmp_path / "journal.db"
    async with opened(path) as journal:
        for number in range(1, 400):
            await commit(journal, Batch(events("run", [number]), body("x" * 3000)))
    async with opened(path) as journal, journal.drive("run"):
        await commit(journal, Batch(events("run", [400]), {}))
        os.truncate(path, length)
        with pytest.raises(JournalError, match=r"was cut off|damaged"):
            await commit(journal, Batch(events("run", [401]), {}))


async def test_a_database_that_others_have_shortened_is_not_taken_for_lost(tmp_path: Path) -> None:  # D-03
    path = tmp_path / "journal.db"
    async with opened(path) as ours, opened(path) as theirs:
        await commit(ours, Batch(events("large", range(1, 300)), body("x" * 300_000)))
        async with ours.drive("run"):
            await commit(ours, Batch(events("run", [1]), {}))
            ours._database.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            await commit(ours, Batch(events("run", [2]), {}))
            before = path.stat().st_size
            await theirs.delete(["large"])
            assert path.stat().st_size < before
            await commit(ours, Batch(events("run", [3]), {}))
        assert len(await theirs.read("run")) == 3
    assert list(tmp_path.glob("rescue-*")) == []


async def test_closing_a_lost_database_leaves_the_log_of_the_one_in_its_place(tmp_path: Path) -> None:  # D-03
    path = tmp_path / "journal.db"
    lost = SqliteJournal(path)
    await lost.open()
    await commit(lost, Batch(events("run", [1]), {}))
    delete_all(path)
    async with opened(path) as new:
        await commit(new, Batch(events("new", [1]), {}))
        with pytest.raises(JournalUnavailable):
            await commit(lost, Batch(events("run", [2]), {}))
        await lost.close()
        await commit(new, Batch(events("new", [2]), {}))
    async with opened(path) as new:
        assert await new.read("new") == events("new", [1, 2])
        assert await new.read("run") == []
    assert {one.name for one in tmp_path.iterdir() if "kept" in one.name} == set()


@pytest.mark.parametrize("lose", [delete, delete_all, replace])
async def test_a_run_whose_journal_is_lost_fails_and_continues_from_the_rescued_one(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:  # D-03
    path = tmp_path / "home" / "journal.db"
    asked: list[str] = []

    def agent(name: str) -> FunctionAgent:
        async def respond(task: str) -> str:
            asked.append(name)
            if name == "b" and asked.count("b") == 1:
                lose(path)
            return f"{name} spoke"

        return FunctionAgent(name, respond)

    team = Team("t", members=[agent("a"), agent("b"), agent("c")])
    async with Engine(path) as engine:
        with pytest.raises(JournalUnavailable, match="is saved in"):
            await engine.run(team, "go", run_id="run")
    (saved,) = tmp_path.glob("**/rescue-*/journal.db")
    async with Engine(saved) as engine:
        result = await engine.resume("run", team=team)
    assert result.status == "completed"
    assert asked == ["a", "b", "c"]  # what had returned is in the rescued journal


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs users")
async def test_a_folder_that_becomes_read_only_loses_nothing(tmp_path: Path) -> None:  # D-03
    path = tmp_path / "home" / "journal.db"
    async with opened(path) as journal, journal.drive("run"):
        await commit(journal, Batch(events("run", [1]), {}))
        path.parent.chmod(0o500)
        with suppress(JournalUnavailable):  # root writes there all the same, and the files are open
            await commit(journal, Batch(events("run", [2]), {}))
        path.parent.chmod(0o700)
    async with opened(path) as journal:
        assert len(await journal.read("run")) in {1, 2}


MANIFEST = """\
agents:
  clerk: {function: "loss:lose"}
  other: {function: "loss:speak"}
teams:
  office: {members: [clerk, other]}
"""
PROGRAM = """\
import os
from pathlib import Path


def lose(task: str) -> str:
    for path in Path(os.environ["TEAMWRIGHT_HOME"]).glob("journal.db*"):
        path.unlink()
    return "gone"


def speak(task: str) -> str:
    return "spoken"
"""


def test_a_command_whose_journal_is_lost_exits_with_1_and_says_where_to_continue(tmp_path: Path) -> None:  # D-03
    (tmp_path / "team.yaml").write_text(MANIFEST)
    (tmp_path / "loss.py").write_text(PROGRAM)

    def teamwright(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "teamwright.cli.entry", *arguments],
            env={**os.environ, "TEAMWRIGHT_HOME": str(home)}, cwd=tmp_path, capture_output=True, text=True, check=False,
            timeout=50,
        )  # fmt: skip

    home = tmp_path / "home"
    lost = teamwright(home, "run", "team.yaml", "go", "--run-id", "run", "--quiet")
    assert lost.returncode == 1
    assert "was deleted while it was in use" in lost.stderr
    assert "Traceback" not in lost.stderr
    (saved,) = home.glob("rescue-*")
    assert f"TEAMWRIGHT_HOME={saved} teamwright runs list" in lost.stderr
    assert "run" in teamwright(saved, "runs", "list").stdout
