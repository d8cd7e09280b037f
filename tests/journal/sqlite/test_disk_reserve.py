"""Runs can be deleted when the disk is full, which is what the message about a full disk advises.  # D-06"""

import errno
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
import pytest

from teamwright.errors import JournalUnavailable
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.disk_reserve import BYTES, DiskReserve
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import body, commit, commit_all, event, events
from teamwright.values.events.run import RunEnded, RunStarted
from tests.journal.journals import opened
from tests.kit.program import run_program

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
    assert (home / "journal.db-reserve").stat().st_size == BYTES
    fill(small_disk)
    before = path.stat().st_size
    said = await _teamwright(home, "runs", "prune", "--yes")
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
        assert any("teamwright runs prune" in str(told) for told in more)
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
        said = await _teamwright(home, "runs", "prune", "--yes", "--keep", str(left))
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
    monkeypatch.setattr(DiskReserve, "free", lambda _: 3 * BYTES)
    reserve.fill()
    assert not reserve.release()
    monkeypatch.setattr(DiskReserve, "free", lambda _: 5 * BYTES)
    reserve.fill()
    assert (tmp_path / "journal.db-reserve").stat().st_size == BYTES
    assert reserve.release()


def test_a_reserve_that_cannot_be_made_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr("teamwright.journal.sqlite.disk_reserve._allocate", full)
    DiskReserve(str(tmp_path / "journal.db")).fill()
    assert list(tmp_path.iterdir()) == []
