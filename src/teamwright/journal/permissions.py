"""Keeps the journal's files to their owner: folders 0700, files 0600, whatever the umask says.

Nothing here follows a symbolic link, waits on a file that is none, or opens the database: closing a second handle on
it would drop the locks that SQLite holds.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from teamwright.errors import JournalUnavailable

FOLDER_MODE, FILE_MODE = 0o700, 0o600
_OTHERS = 0o077
_OPEN = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=FOLDER_MODE, exist_ok=True)


def make_own_folder(folder: Path) -> None:
    """Make a folder, or see that the one that exists is this user's and closed to others."""
    make_folder(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise JournalUnavailable(
            f"{str(folder)!r} is no folder, and the journal keeps its locks there: move it away, or set"
            " TEAMWRIGHT_HOME to a folder of yours."
        )
    _check_owner(folder, found)
    _tighten(folder, found)


def tighten_folder(folder: Path, own: Iterable[str]) -> None:
    """Close a folder to others if nothing lies in it but files of these names, as in one that earlier versions made."""
    with suppress(OSError):
        found = folder.lstat()
        if found.st_mode & _OTHERS and _is_mine(found):
            with os.scandir(folder) as entries:
                if all(entry.name.startswith(tuple(own)) for entry in entries):
                    folder.chmod(FOLDER_MODE)


def make_file(path: Path) -> None:
    """Make an empty file for this user alone, or close the one that exists to others."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        _make(path)
        found = path.lstat()
    if not stat.S_ISREG(found.st_mode):
        raise JournalUnavailable(f"{str(path)!r} is no regular file: move it away, or name another journal.")
    for one in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(FileNotFoundError):
            _tighten(one, one.lstat())


def _make(path: Path) -> None:
    """Give a finished file its name, so that no handle on it is closed while somebody else uses it."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    os.close(handle)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without links: there the name is all that keeps others away
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
    finally:
        Path(draft).unlink()


def open_own(path: Path, *, create: bool = False) -> int:
    """Open a regular file of this user's for reading and writing; raises `OSError` with a reason."""
    handle = os.open(path, _OPEN | (os.O_CREAT if create else 0), FILE_MODE)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is no regular file")
        if not _is_mine(found):
            raise OSError(0, f"it belongs to another user ({found.st_uid})")
        if found.st_mode & _OTHERS and os.name != "nt":
            os.fchmod(handle, FILE_MODE)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_owner(path: Path, found: os.stat_result) -> None:
    if not _is_mine(found):
        raise JournalUnavailable(
            f"{str(path)!r} belongs to another user ({found.st_uid}), who could hold up runs: move it away, or set"
            " TEAMWRIGHT_HOME to a folder of yours."
        )


def _is_mine(found: os.stat_result) -> bool:
    """Whether a file is this user's; everything is root's."""
    return not hasattr(os, "geteuid") or os.geteuid() in {0, found.st_uid}


def _tighten(path: Path, found: os.stat_result) -> None:
    if found.st_mode & _OTHERS:
        with suppress(PermissionError):  # another user's: it is theirs to close
            path.chmod(FILE_MODE if stat.S_ISREG(found.st_mode) else FOLDER_MODE)
