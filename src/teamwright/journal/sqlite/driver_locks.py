"""Driver locks of runs whose journal is a SQLite file: one file per run, beside the database.

The operating system locks it, and releases it when the process ends. Acquiring a lock never waits, and checking whether
one is held never makes a driver fail.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from teamwright.errors import JournalUnavailable, RunIsLive
from teamwright.journal.location import open_own
from teamwright.values.turns.messages import digest

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
