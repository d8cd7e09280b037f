"""Restricts the journal's files to their owner: folders 0700, files 0600, whatever the umask.

Nothing here follows a symbolic link, blocks on a special file, or opens the database: closing a second handle on it
would release the locks of SQLite.
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
    """Create a folder and its missing parents, for this user alone."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=FOLDER_MODE, exist_ok=True)


def make_own_folder(folder: Path) -> None:
    """Create a folder, or check that an existing one belongs to this user, and close it to others."""
    make_folder(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise JournalUnavailable(
            f"{str(folder)!r} is not a folder, and the journal keeps its locks there: move it away, or set"
            " TEAMWRIGHT_HOME to a folder of yours."
        )
    _check_owner(folder, found)
    _tighten(folder, found)


def tighten_folder(folder: Path, own: Iterable[str]) -> None:
    """Close a folder to others if it contains only files with these prefixes, as folders of earlier versions do."""
    with suppress(OSError):
        found = folder.lstat()
        if found.st_mode & _OTHERS and _is_mine(found):
            with os.scandir(folder) as entries:
                if all(entry.name.startswith(tuple(own)) for entry in entries):
                    folder.chmod(FOLDER_MODE)


def make_file(path: Path) -> None:
    """Create an empty file for this user alone, or close an existing one to others."""
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
    """Create the file under another name and link it, so that no handle is closed that another process uses."""
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    os.close(handle)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, FILE_MODE))
    finally:
        Path(draft).unlink()


def open_own(path: Path, *, create: bool = False) -> int:
    """Open a regular file of this user for reading and writing; raise `OSError` with a reason."""
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
    """Whether a file belongs to this user; root counts as the owner of every file."""
    return not hasattr(os, "geteuid") or os.geteuid() in {0, found.st_uid}


def _tighten(path: Path, found: os.stat_result) -> None:
    if found.st_mode & _OTHERS:
        with suppress(PermissionError):  # belongs to another user, who alone may change it
            path.chmod(FILE_MODE if stat.S_ISREG(found.st_mode) else FOLDER_MODE)
