"""Prints the folder for the files of a test run: one in memory, where there is room.

The journal of a test reaches the disk at each commit, which takes milliseconds. No test lets the machine lose power.
"""

import os
import re
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that a test run may need, most of them for its Postgres server."""
MEMINFO = Path("/proc/meminfo")


def folder(memory: Path = MEMORY, meminfo: Path = MEMINFO) -> str:
    """Return the folder in memory, unless the user has named another one or it can't be used."""
    if "TMPDIR" not in os.environ and has_room(memory) and available(meminfo) > 2 * ROOM:
        return str(memory)
    return tempfile.gettempdir()


def has_room(path: Path) -> bool:
    """Whether files can be written there, run as programs, and take as much room as they need."""
    if not os.access(path, os.W_OK | os.X_OK):
        return False
    system = os.statvfs(path)
    return system.f_bavail * system.f_frsize > ROOM and not system.f_flag & os.ST_NOEXEC


def available(meminfo: Path) -> int:
    """The bytes of memory that are available, 0 where the system does not say it."""
    text = meminfo.read_text(encoding="utf-8") if meminfo.exists() else ""
    found = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) << 10 if found else 0


if __name__ == "__main__":
    print(folder())
