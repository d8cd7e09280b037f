"""The files beside the database and the database's own: whether they are still its own, rescued copies, a reserve of
disk space, and driver locks of runs, one file per run.

The operating system locks a file, and releases it when the process ends. Acquiring a lock never waits, and checking
whether one is held never makes a driver fail.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic

from teamwright.errors import JournalUnavailable, RunIsLive
from teamwright.journal.location import FILE_MODE, make_file, open_own
from teamwright.values.turns.messages import digest

_Identity = tuple[int, int] | None

COMPARE_EVERY = 0.05
"""Seconds between two comparisons of the files beside the database; a deletion of one is noticed at once."""


class FileIdentity:
    """The identity of the database, its log and its index at the time of opening."""

    __slots__ = (
        "_connection", "_database", "_due", "_folder_name", "_folder_time", "_log", "_log_name", "_name", "_shared",
        "_shared_name", "_size",
    )  # fmt: skip

    def __init__(self, name: str, connection: sqlite3.Connection) -> None:
        self._name, self._connection = name, connection
        self._log_name, self._shared_name = f"{name}-wal", f"{name}-shm"
        self._database, self._log, self._shared = map(_identity, (name, self._log_name, self._shared_name))
        self._size = 0
        self._folder_name = str(Path(name).parent)
        self._folder_time, self._due = 0, 0.0

    def changed(self, *, thorough: bool = True) -> str | None:
        """Return what happened to the files, or None where they are unchanged.

        This is called at each commit, without `thorough`: right after a sync, three files take 50 microseconds. Then
        those beside the database are compared only if an entry of their folder has changed, or if they were compared
        a while ago.
        """
        try:
            found = os.stat(self._name)  # noqa: PTH116 - a path takes twice as long
            if (found.st_dev, found.st_ino) != self._database:
                return "was replaced by another file"
            folder = os.stat(self._folder_name)  # noqa: PTH116
            if thorough or folder.st_mtime_ns != self._folder_time or monotonic() > self._due:
                self._folder_time, self._due = folder.st_mtime_ns, monotonic() + COMPARE_EVERY
                if (what := self._changed_beside()) is not None:
                    return what
        except FileNotFoundError as error:
            return "was deleted" if error.filename == self._name else f"has lost its file {error.filename!r}"
        except OSError as error:
            return f"can no longer be found ({error.strerror})"
        if found.st_size < self._size and not self._is_sound():
            return "was cut off"
        self._size = found.st_size
        return None

    def _changed_beside(self) -> str | None:
        found = os.stat(self._log_name)  # noqa: PTH116
        if (found.st_dev, found.st_ino) != self._log:
            return "has lost its write-ahead log, which was replaced by another file,"
        found = os.stat(self._shared_name)  # noqa: PTH116
        if (found.st_dev, found.st_ino) != self._shared:
            return "has lost the index of its log, which was replaced by another file,"
        return None

    def _is_sound(self) -> bool:
        """Whether SQLite itself has shortened the file, after runs were deleted."""
        try:
            return self._connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
        except sqlite3.Error:
            return False

    @contextmanager
    def preserve_other_files(self) -> Generator[None]:
        """Preserve files of another database at these paths, which closing the last connection would remove."""
        kept: list[str] = []
        for name, own in ((self._log_name, self._log), (self._shared_name, self._shared)):
            if _identity(name) not in {None, own}:
                with suppress(OSError):
                    os.link(name, f"{name}-kept")
                    kept.append(name)
        try:
            yield
        finally:
            for name in kept:
                with suppress(OSError):
                    os.link(f"{name}-kept", name)
                with suppress(OSError):
                    Path(f"{name}-kept").unlink()


def _identity(name: str) -> _Identity:
    try:
        found = Path(name).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


RESCUE = "rescue-"
"""The prefix of the folders of rescued copies."""


def save_copy(connection: sqlite3.Connection, folder: Path, name: str) -> Path | None:
    """Copy a database into a new folder here or, failing that, in the temporary folder; None if neither works."""
    for parent in (folder, Path(tempfile.gettempdir())):
        with suppress(OSError, sqlite3.Error):
            saved = Path(tempfile.mkdtemp(prefix=RESCUE, dir=parent)) / name
            make_file(saved)
            with closing(sqlite3.connect(saved)) as copy:
                connection.backup(copy)
            return saved
    return None


RESERVE_BYTES = 2 * 1024 * 1024
"""The space that opening a database and deleting a run may need for the log."""
_STEP = 64 * 1024


class DiskReserve:
    """The reserve file. Only opening and deleting use its space, and the rest is reserved again at once.

    A reserve is created when the disk has space for four of them.
    """

    def __init__(self, database: str) -> None:
        self._path = Path(f"{database}-reserve")

    def fill(self) -> None:
        """Create the reserve if the disk has plenty of space; never fails."""
        with suppress(OSError):
            if not self._path.exists() and self.free() > 4 * RESERVE_BYTES:
                handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE)
                try:
                    _allocate(handle, 0, RESERVE_BYTES)
                except OSError:
                    self._path.unlink()
                finally:
                    os.close(handle)

    def hold_rest(self) -> None:
        """Reserve as much of the space as the disk still has; never fails."""
        with suppress(OSError):
            handle = os.open(self._path, os.O_CREAT | os.O_WRONLY, FILE_MODE)
            try:
                for start in range(os.fstat(handle).st_size, RESERVE_BYTES, _STEP):
                    _allocate(handle, start, min(_STEP, RESERVE_BYTES - start))
            finally:
                os.close(handle)

    def top_up(self) -> None:
        """Extend an existing reserve as far as the disk allows; never fails."""
        with suppress(OSError):
            if self._path.stat().st_size < RESERVE_BYTES:
                self.hold_rest()

    def release(self) -> bool:
        """Release the reserve; return whether there was one."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def free(self) -> int:
        return shutil.disk_usage(self._path.parent).free

    @property
    def is_needed(self) -> bool:
        """Whether the disk is nearly full."""
        try:
            return self.free() < RESERVE_BYTES
        except OSError:
            return False


def _allocate(handle: int, start: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, start, size)
    else:
        os.lseek(handle, start, os.SEEK_SET)
        os.write(handle, bytes(size))


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: int, *, shared: bool) -> bool:  # noqa: ARG001 - Windows has exclusive locks only
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: int, *, shared: bool) -> bool:
        try:
            fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


LOCKS = "locks"
"""The folder of the locks, beside the database."""
_ATTEMPTS = 1000


_held: set[int] = set()


def _close_in_child() -> None:
    """Close inherited locks in a forked child, which would hold them beyond its parent's death."""
    for file in _held:
        with suppress(OSError):
            os.close(file)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class DriverLocks:
    """The driver locks of the runs of one journal."""

    def __init__(self, folder: Path, journal: str) -> None:
        self._folder, self._journal = folder, journal

    @contextmanager
    def hold(self, run_id: str) -> Generator[None]:
        """Hold a run's lock; raise `RunIsLive` if it is held, here or in another process."""
        file = self._lock(run_id)
        _held.add(file)
        try:
            yield
        finally:
            if file in _held:  # false in a child forked meanwhile: the lock is its parent's
                _held.discard(file)
                self._remove(run_id)
                os.close(file)

    def is_held(self, run_id: str) -> bool:
        """Whether any process holds the run's lock now."""
        try:
            file = open_own(self._path(run_id))
        except OSError:
            return False
        try:
            return not _try_lock(file, shared=True)
        finally:
            os.close(file)

    def _lock(self, run_id: str) -> int:
        """Acquire the lock. A check holds a shared lock briefly, so only a denied shared lock means a driver."""
        for _ in range(_ATTEMPTS):
            file = self._open(run_id)
            if _try_lock(file, shared=False):
                if self._is_current(file, run_id):
                    return file
            elif not _try_lock(file, shared=True):
                os.close(file)
                raise RunIsLive(run_id)
            os.close(file)
        raise RunIsLive(run_id)

    def _open(self, run_id: str) -> int:
        try:
            return open_own(self._path(run_id), create=True)
        except OSError as error:
            raise JournalUnavailable(
                f"The driver lock of run {run_id!r}, {str(self._path(run_id))!r}, can't be used: {error.strerror};"
                " make its folder writable, move away what is there, or set TEAMWRIGHT_HOME to another folder."
            ) from error

    def _is_current(self, file: int, run_id: str) -> bool:
        """Whether the locked file is still at its path: its last holder may just have removed it."""
        try:
            return os.path.samestat(os.fstat(file), self._path(run_id).stat())
        except FileNotFoundError:
            return False

    def _remove(self, run_id: str) -> None:
        with suppress(OSError):  # Windows keeps open files; a leftover file does no harm
            self._path(run_id).unlink()

    def _path(self, run_id: str) -> Path:
        """The path of a lock, hashed since case, length and reserved names differ between file systems."""
        return self._folder / f"{digest(self._journal, run_id)}.lock"
