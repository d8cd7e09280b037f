"""A file beside the database that holds room on the disk, so that runs can be deleted when there is no other left."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from teamwright.journal.permissions import FILE_MODE

BYTES = 2 * 1024 * 1024
"""What opening a database and deleting a run from it may need for the log."""
_STEP = 64 * 1024


class Reserve:
    """The file; only opening and deleting use its room, and what they leave is held again at once.

    A reserve is first made when there is room for four of them.
    """

    def __init__(self, database: str) -> None:
        self._path = Path(f"{database}-reserve")

    def fill(self) -> None:
        """Hold room, if there is plenty; never fails."""
        with suppress(OSError):
            if not self._path.exists() and self.free() > 4 * BYTES:
                handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE)
                try:
                    _allocate(handle, 0, BYTES)
                except OSError:
                    self._path.unlink()
                finally:
                    os.close(handle)

    def hold_rest(self) -> None:
        """Hold as much as there is room for, after the room was given up; never fails."""
        with suppress(OSError):
            handle = os.open(self._path, os.O_CREAT | os.O_WRONLY, FILE_MODE)
            try:
                for start in range(os.fstat(handle).st_size, BYTES, _STEP):
                    _allocate(handle, start, min(_STEP, BYTES - start))
            finally:
                os.close(handle)

    def top_up(self) -> None:
        """Hold as much as there is room for, where a reserve is held; never fails."""
        with suppress(OSError):
            if self._path.stat().st_size < BYTES:
                self.hold_rest()

    def release(self) -> bool:
        """Give the room up; whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def free(self) -> int:
        """How many bytes the disk has left."""
        return shutil.disk_usage(self._path.parent).free

    @property
    def is_needed(self) -> bool:
        """Whether the disk is as good as full."""
        try:
            return self.free() < BYTES
        except OSError:
            return False


def _allocate(handle: int, start: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(handle, start, size)
    else:
        os.lseek(handle, start, os.SEEK_SET)
        os.write(handle, bytes(size))
