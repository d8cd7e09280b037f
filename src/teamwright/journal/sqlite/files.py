"""The files of the database: whether they are still its own, rescued copies, and a reserve of disk space."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from time import monotonic

from teamwright.journal.location import FILE_MODE, make_file

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
