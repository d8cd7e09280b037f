"""Checks whether the files of an open database are still those at its path, which SQLite does not check again.

A database that was deleted, replaced or truncated still accepts commits, into files that can no longer be found.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

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
