"""A file beside the database that reserves disk space, so that runs can be deleted when the disk is full."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from teamwright.journal.permissions import FILE_MODE

BYTES = 2 * 1024 * 1024
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
            if not self._path.exists() and self.free() > 4 * BYTES:
                handle = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE)
                try:
                    _allocate(handle, 0, BYTES)
                except OSError:
                    self._path.unlink()
                finally:
                    os.close(handle)

    def hold_rest(self) -> None:
        """Reserve as much of the space as the disk still has; never fails."""
        with suppress(OSError):
            handle = os.open(self._path, os.O_CREAT | os.O_WRONLY, FILE_MODE)
            try:
                for start in range(os.fstat(handle).st_size, BYTES, _STEP):
                    _allocate(handle, start, min(_STEP, BYTES - start))
            finally:
                os.close(handle)

    def top_up(self) -> None:
        """Extend an existing reserve as far as the disk allows; never fails."""
        with suppress(OSError):
            if self._path.stat().st_size < BYTES:
                self.hold_rest()

    def release(self) -> bool:
        """Release the reserve; return whether there was one."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True

    def free(self) -> int:
        """The free bytes of the disk."""
        return shutil.disk_usage(self._path.parent).free

    @property
    def is_needed(self) -> bool:
        """Whether the disk is nearly full."""
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
