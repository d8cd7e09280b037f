"""A folder with the Python code that manifests name. Code never travels with a run: only the digest of its folder does.

A worker with the same code, by digest, drives the run; its operator has put the code there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from teamwright.errors import UsageError
from teamwright.values.text.display import size_text

MOST_FILES = 20_000
LARGEST_TOTAL = 500_000_000
_SKIPPED = {"__pycache__", "node_modules", "build", "dist"}
_SKIPPED_SUFFIXES = (".pyc", ".pyo", ".egg-info", ".dist-info")


class CodeFolder:
    """A folder with code, and its digest at the time this process began to use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._seen = _listing(self.folder)
        self.digest = _digest(self.folder, self._seen)

    def is_unchanged(self) -> bool:
        """Whether the folder still has this digest: this process may have imported its modules as they were."""
        try:
            seen = _listing(self.folder)
            if seen != self._seen and _digest(self.folder, seen) != self.digest:
                return False
        except UsageError:
            return False
        self._seen = seen
        return True

    def has(self, path: Path) -> bool:
        """Whether a path is in the folder."""
        return path.resolve().is_relative_to(self.folder)


def _listing(folder: Path) -> dict[str, tuple[int, int, int]]:
    """The files of the folder, each with its size, time of change and inode; raises `UsageError`."""
    if not folder.is_dir():
        raise UsageError(f"There is no folder {str(folder)!r} with code; name it with  --code DIR")
    try:
        found = dict(_files(folder))
    except OSError as error:
        raise UsageError(f"The folder {str(folder)!r} with code can't be read: {error.strerror}.") from error
    total = sum(size for size, _, _ in found.values())
    if len(found) > MOST_FILES or total > LARGEST_TOTAL:
        raise UsageError(
            f"The folder {str(folder)!r} has {len(found)} files with {size_text(total)}, too many for a digest of code;"
            " name a folder that contains the code alone."
        )
    return found


def _files(folder: Path) -> Iterator[tuple[str, tuple[int, int, int]]]:
    """The files that count as code: all but hidden ones, and what tools generate. Links are followed, as by Python."""
    walked: set[str] = set()
    for parent, folders, names in os.walk(folder, followlinks=True):
        if (real := os.path.realpath(parent)) in walked:  # a link to a folder around it
            folders.clear()
            continue
        walked.add(real)
        folders[:] = sorted(one for one in folders if _is_source(one))
        for name in sorted(filter(_is_source, names)):
            place = Path(parent, name)
            if place.is_file():
                found = place.stat()
                path = place.relative_to(folder).as_posix()
                yield path, (found.st_size, found.st_mtime_ns, found.st_ino)


def _is_source(name: str) -> bool:
    return not name.startswith(".") and name not in _SKIPPED and not name.endswith(_SKIPPED_SUFFIXES)


def _digest(folder: Path, paths: dict[str, tuple[int, int, int]]) -> str:
    """Hash the paths and contents of files; where the folder is and when files were written does not matter."""
    hashed = blake2b(digest_size=16)
    try:
        for path in sorted(paths):
            content = (folder / path).read_bytes()
            name = path.encode("utf-8", "surrogateescape")
            hashed.update(b"%d %d\n%b%b" % (len(name), len(content), name, content))
    except OSError as error:
        raise UsageError(f"The folder {str(folder)!r} with code can't be read: {error.strerror}.") from error
    return hashed.hexdigest()
