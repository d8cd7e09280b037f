"""What a journal may be named by."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from teamwright.errors import JournalUnavailable, UsageError
from teamwright.journal.location import resolve_journal
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.files import LOCKS, DriverLocks
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import body, commit, events
from teamwright.values.turns.messages import digest
from tests.journal.journals import opened


@pytest.mark.parametrize("address", ["mysql://user:secret@host/runs", "postgress://host/runs", "sqlite:///runs.db"])
@pytest.mark.parametrize("kind", [str, Path])
def test_the_address_of_something_else_is_not_taken_for_a_path(kind: type[str] | type[Path], address: str) -> None:
    with pytest.raises(UsageError, match="begins with postgresql://") as refused:
        resolve_journal(kind(address))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("path", ["runs.db", "a:b/runs.db", "C:/runs.db"])
def test_any_other_text_is_the_path_of_a_file(path: str) -> None:
    assert type(resolve_journal(path)).__name__ == "SqliteJournal"


pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs modes")
SOMEBODY = 54321
"""Another user."""
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root")


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
async def test_whatever_the_umask_folders_are_0700_and_files_0600(tmp_path: Path, mask: int) -> None:  # S-05
    home = tmp_path / "share" / "teamwright"
    with umask(mask):
        async with opened(home / "journal.db") as journal, journal.drive("run"):
            await commit(journal, Batch(events("run", [1]), body("text")))
            found = {path: mode(path) for path in (home.parent, *home.parent.rglob("*"))}
    assert {path.name for path in found} >= {"journal.db", "journal.db-wal", "journal.db-shm", LOCKS}
    assert any(path.suffix == ".lock" for path in found)
    assert {path: kept for path, kept in found.items() if kept != (0o700 if path.is_dir() else 0o600)} == {}


async def test_a_journal_that_was_open_to_others_is_closed_to_them(tmp_path: Path) -> None:  # S-05
    home = tmp_path / "home"
    async with opened(home / "journal.db") as journal:
        await commit(journal, Batch(events("run", [1]), {}))
    home.chmod(0o755)
    (home / LOCKS).chmod(0o777)
    (home / "journal.db").chmod(0o644)
    async with opened(home / "journal.db") as journal:
        assert await journal.read("run") == events("run", [1])
        found = {path: mode(path) for path in (home, *home.rglob("*"))}
    assert {path: kept for path, kept in found.items() if kept != (0o700 if path.is_dir() else 0o600)} == {}


async def test_a_folder_that_holds_other_things_keeps_its_mode(tmp_path: Path) -> None:  # S-05
    tmp_path.chmod(0o755)
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "notes.txt").chmod(0o644)
    async with opened(tmp_path / "journal.db"):
        assert mode(tmp_path / "journal.db") == 0o600
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "notes.txt") == 0o644


def lock_of(folder: Path, run_id: str) -> Path:
    return folder / LOCKS / f"{digest('journal.db', run_id)}.lock"


@pytest.mark.parametrize("what", ["link", "fifo", "folder", "dangling"])
async def test_a_lock_that_is_no_file_is_reported_and_never_waited_for(tmp_path: Path, what: str) -> None:  # S-05
    async with opened(tmp_path / "journal.db") as journal:
        lock, other = lock_of(tmp_path, "run"), tmp_path / "precious"
        other.write_text("precious")
        if what == "fifo":
            os.mkfifo(lock)
        elif what == "folder":
            lock.mkdir()
        else:
            lock.symlink_to(other if what == "link" else tmp_path / "nowhere")
        with pytest.raises(JournalUnavailable, match="move away what is there"):
            async with journal.drive("run"):
                pass
        assert not await journal.is_driven("run")
        assert other.read_text() == "precious"
        assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("what", ["fifo", "folder"])
async def test_a_journal_that_is_no_file_is_reported_and_never_waited_for(tmp_path: Path, what: str) -> None:  # S-05
    path = tmp_path / "journal.db"
    os.mkfifo(path) if what == "fifo" else path.mkdir()
    with pytest.raises(JournalUnavailable, match="no regular file"):
        await SqliteJournal(path).open()


async def test_a_folder_of_locks_that_leads_elsewhere_is_reported(tmp_path: Path) -> None:  # S-05
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / LOCKS).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(JournalUnavailable, match="is not a folder"):
        await SqliteJournal(tmp_path / "journal.db").open()


@pytest.fixture
def reachable() -> Generator[Path]:
    """A folder that every user can access, unlike those of pytest."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def as_somebody(work: Callable[[], None]) -> int:
    """Do something as another user, in a child; returns its exit code."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        os.setresuid(SOMEBODY, SOMEBODY, SOMEBODY)
        work()
        code = 0
    except BaseException as error:  # noqa: BLE001 - told by the exit code
        os.write(2, f"{error!r}\n".encode())
    finally:
        os._exit(code)


@needs_root
def test_a_lock_or_a_folder_of_another_user_is_reported(reachable: Path) -> None:  # S-05
    (reachable / LOCKS).mkdir()
    lock = lock_of(reachable, "run")
    lock.write_text("")
    lock.chmod(0o666)
    (reachable / LOCKS).chmod(0o777)

    def work() -> None:
        locks = DriverLocks(reachable / LOCKS, "journal.db")
        with pytest.raises(JournalUnavailable, match="belongs to another user"), locks.hold("run"):
            pass
        with pytest.raises(JournalUnavailable, match="belongs to another user"):
            anyio.run(SqliteJournal(reachable / "journal.db").open)

    assert as_somebody(work) == 0


@needs_root
async def test_another_user_can_neither_read_nor_lock_a_journal(reachable: Path) -> None:  # S-05
    home = reachable / "home"

    def work() -> None:
        list(reachable.iterdir())
        for target in (home, home / "journal.db", home / "journal.db-wal", home / LOCKS):
            with pytest.raises(PermissionError):
                os.open(target, os.O_RDONLY)
        with pytest.raises(PermissionError):
            os.open(lock_of(home, "run"), os.O_RDWR | os.O_CREAT)

    async with opened(home / "journal.db") as journal:
        await commit(journal, Batch(events("run", [1]), {}))
        assert as_somebody(work) == 0
        async with journal.drive("run"):
            await commit(journal, Batch(events("run", [2]), {}))
