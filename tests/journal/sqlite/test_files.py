"""A database that is lost while runs are recorded in it stops them, and nothing that it held is lost.  # D-03"""

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
import pytest

from teamwright import Engine, FunctionAgent, Team
from teamwright.errors import JournalError, JournalUnavailable
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.files import RESERVE_BYTES, DiskReserve
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import body, commit, commit_all, event, events
from teamwright.values.events.run import RunEnded, RunStarted
from teamwright.values.people import Pause
from tests.journal.journals import opened
from tests.kit.program import run_program


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


ENDED = RunEnded(status="completed", stop_reason="done", seconds=1.0)
MIB = 1024 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Generator[Path]:
    """A separate file system of 16 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True, check=False
    ) if sys.platform == "linux" else None  # fmt: skip
    if made is None or made.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Take all that is left of a disk."""
    with (folder / "filler").open("ab", 0) as file:
        for size in (65536, 4096, 1):
            with suppress(OSError):
                while file.write(bytes(size)):
                    pass


def started(run: str) -> Batch:
    texts = body("the task") | body(f"{run} {'x' * 900_000}")
    task, text = texts
    fact = RunStarted(team="t", task=task, manifest=text, seed=1)
    return Batch([event(run, 1, fact), event(run, 2, ENDED)], texts)


async def test_runs_are_deleted_on_a_full_disk(small_disk: Path) -> None:  # D-06
    home = small_disk / "home"
    path = home / "journal.db"
    async with opened(path) as journal:
        for number in range(6):
            await commit(journal, started(f"run-{number}"))
        async with journal.drive("open"):
            await commit(journal, Batch(events("open", [1]), {}))
    assert (home / "journal.db-reserve").stat().st_size == RESERVE_BYTES
    fill(small_disk)
    before = path.stat().st_size
    said = await _teamwright(home, "runs", "delete", "--keep", "0", "--yes")
    assert said.returncode == 0, said.stderr
    assert "6 runs deleted" in said.stdout
    assert path.stat().st_size < before - 5 * MIB
    async with opened(path) as journal:
        assert [run.id for run in await journal.runs()] == ["open"]
        async with journal.drive("open"):
            await commit(journal, Batch(events("open", [2]), {}))
        assert await journal.read("open") == events("open", [1, 2])
    (small_disk / "filler").unlink()
    async with opened(path):
        assert (home / "journal.db-reserve").exists()


async def _teamwright(home: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "TEAMWRIGHT_HOME": str(home)}
    return await anyio.to_thread.run_sync(lambda: run_program(*arguments, env=environment))


async def test_runs_can_be_deleted_when_the_disk_is_full(small_disk: Path) -> None:  # D-06
    async with opened(small_disk / "journal.db") as journal:
        for number in range(6):
            await commit(journal, started(f"run-{number}"))
        fill(small_disk)
        more = await commit_all(journal, [started(f"more-{number}") for number in range(12)])
        assert any("teamwright runs delete" in str(told) for told in more)
        assert await journal.delete([f"run-{number}" for number in range(6)]) > 5 * MIB
        await commit(journal, started("after"))
        assert "after" in [run.id for run in await journal.runs()]


async def test_what_is_done_on_a_full_disk_leaves_the_room_for_deleting(small_disk: Path) -> None:  # D-06
    home = small_disk / "home"
    async with opened(home / "journal.db") as journal:
        for number in range(3):
            await commit(journal, started(f"run-{number}"))
    fill(small_disk)
    for _ in range(2):
        async with opened(home / "journal.db") as journal:
            fill(small_disk)  # as a run or another program would
            with pytest.raises(JournalUnavailable, match="the disk is full"):
                await commit(journal, started("one-more"))
        fill(small_disk)
    for left in (2, 1):
        said = await _teamwright(home, "runs", "delete", "--yes", "--keep", str(left))
        assert said.returncode == 0, said.stderr
        assert "1 run deleted" in said.stdout
        fill(small_disk)


async def test_a_journal_that_cannot_be_opened_on_a_full_disk_says_so(small_disk: Path) -> None:  # D-06
    async with opened(small_disk / "journal.db") as journal:
        await commit(journal, started("run"))
    (small_disk / "journal.db-reserve").unlink()
    fill(small_disk)
    with pytest.raises(JournalUnavailable, match=r"the disk is full.*delete some other file"):
        await SqliteJournal(small_disk / "journal.db").open()


async def test_without_any_room_it_is_said_what_to_do(small_disk: Path) -> None:  # D-06
    path = small_disk / "journal.db"
    async with opened(path) as journal:
        await commit(journal, started("run"))
        (small_disk / "journal.db-reserve").unlink()
        journal._database.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        fill(small_disk)
        with pytest.raises(JournalUnavailable, match="delete some other file"):
            await journal.delete(["run"])
        assert len(await journal.read("run")) == 2


def test_no_room_is_held_where_there_is_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = DiskReserve(str(tmp_path / "journal.db"))
    monkeypatch.setattr(DiskReserve, "free", lambda _: 3 * RESERVE_BYTES)
    reserve.fill()
    assert not reserve.release()
    monkeypatch.setattr(DiskReserve, "free", lambda _: 5 * RESERVE_BYTES)
    reserve.fill()
    assert (tmp_path / "journal.db-reserve").stat().st_size == RESERVE_BYTES
    assert reserve.release()


def test_a_reserve_that_cannot_be_made_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr("teamwright.journal.sqlite.files._allocate", full)
    DiskReserve(str(tmp_path / "journal.db")).fill()
    assert list(tmp_path.iterdir()) == []
