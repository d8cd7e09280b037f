"""The files that travel with a run, by their paths in the folder of its manifest, and where a worker unpacks them.

No path leads out of a folder. All workers of a machine share one folder per set of files: it is named by the digest of
its files, appears complete or not at all, and is checked on every use; a file that was changed is replaced.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

import anyio
from pydantic_core import to_json

from teamwright.errors import JournalCorrupt, UsageError
from teamwright.journal.codec import decode_body
from teamwright.journal.location import data_folder
from teamwright.values.events.agent import Body
from teamwright.values.specs.manifest import Source
from teamwright.values.text.display import size_text
from teamwright.values.turns.artifacts import content_of, stored_content
from teamwright.values.turns.messages import digest

ReadBodies = Callable[[Collection[Body]], Awaitable[dict[Body, str]]]

MOST_FILES = 1_000

LARGEST_FILE = 4_000_000

LARGEST_TOTAL = 16_000_000
"""The most bytes of one file, and of all files of a run: the database holds them for as long as the run."""

LONGEST_NAME, LONGEST_PATH = 200, 800

UNUSED_SECONDS = 30 * 86400.0
"""A folder that no run has used for so long is removed when a worker starts."""

_NEW, _OLD = ".new-", ".old-"

_NEVER_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


def check_files(files: Mapping[str, bytes]) -> None:
    """Raise `UsageError` if these files can't travel: too many, too large, or with a path that leaves the folder."""
    if len(files) > MOST_FILES:
        raise UsageError(f"The manifest names {len(files)} files, and at most {MOST_FILES} travel with a run.")
    for path, content in files.items():
        check_path(path)
        if len(content) > LARGEST_FILE:
            raise UsageError(
                f"The file {path!r} has more than {size_text(LARGEST_FILE)}, and no larger one travels with a run;"
                " put it where every worker finds it, and name it by an absolute path."
            )
    if sum(map(len, files.values())) > LARGEST_TOTAL:
        raise UsageError(
            f"The files of the manifest have more than {size_text(LARGEST_TOTAL)} together, and no more travel with a"
            " run; put the largest where every worker finds them, and name them by absolute paths."
        )
    for path in files:
        if blocked := [str(one) for one in PurePosixPath(path).parents if str(one) in files]:
            raise UsageError(f"{blocked[0]!r} can't travel with the run both as a file and as the folder of {path!r}.")


def check_path(path: str) -> None:
    """Raise `UsageError` for a path that is not plainly below a folder, on any system."""
    parts = path.split("/")
    if (
        any(part in {"", ".", ".."} or len(part.encode("utf-8", "replace")) > LONGEST_NAME for part in parts)
        or len(path) > LONGEST_PATH
        or any(one in '\\:*?"<>|' or not one.isprintable() for one in path)
    ):
        raise UsageError(
            f"The file {path!r} can't travel with a run: its path must be plain, without '..', links or special signs."
        )


def body_of(content: bytes) -> Body:
    """Return the hash under which the journal stores the content of a file."""
    return digest(to_json(stored_content(content)).decode())


def digest_of(files: Mapping[str, Body]) -> str:
    """Return the digest of all files: of their paths and contents."""
    return digest("files", *(text for entry in sorted(files.items()) for text in entry))


class FileCache:
    """The unpacked files of runs, by default in the user's data folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or data_folder() / "run-files"

    async def unpack(self, files: Mapping[str, Body], read: ReadBodies) -> Path:
        """Return the folder with these files, with contents from `read` unless they are there already.

        Raises `JournalCorrupt` for files that no program of this project would have recorded.
        """
        place = self.folder / digest_of(files)
        if await anyio.to_thread.run_sync(self._is_intact, place, files):
            return place
        texts = await read(set(files.values()))
        try:
            contents = {path: content_of(decode_body(texts[body])) for path, body in files.items()}
            check_files(contents)
        except (UsageError, ValueError) as error:
            raise JournalCorrupt(f"The files of the run can't be unpacked: {error}") from error
        if wrong := [path for path, content in contents.items() if body_of(content) != files[path]]:
            raise JournalCorrupt(f"The file {wrong[0]!r} of the run is not the one that was submitted.")
        await anyio.to_thread.run_sync(self._write, place, contents, files)
        return place

    def remove_unused(self, now: Callable[[], float] = time.time) -> int:
        """Remove folders that no run has used for a month, and what a crash left behind; return their number."""
        removed = 0
        with suppress(FileNotFoundError):
            for one in list(self.folder.iterdir()):
                with suppress(FileNotFoundError):
                    if now() - one.lstat().st_mtime > UNUSED_SECONDS:
                        shutil.rmtree(one, ignore_errors=True)
                        removed += 1
        return removed

    def _is_intact(self, place: Path, files: Mapping[str, Body]) -> bool:
        """Whether the folder has all files unchanged; marks it as used."""
        if place.is_symlink() or not _has_all(place, files):
            return False
        try:
            os.utime(place)
        except OSError:
            return False
        return True

    def _write(self, place: Path, contents: Mapping[str, bytes], files: Mapping[str, Body]) -> None:
        """Write the folder beside its place and move it there, unless another process has done so before."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=self.folder))
        try:
            for path, content in contents.items():
                file = new.joinpath(*PurePosixPath(path).parts)
                file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                file.write_bytes(content)
                file.chmod(0o400)
            while not _move(new, place) and not self._is_intact(place, files):
                _discard(place)
        finally:
            shutil.rmtree(new, ignore_errors=True)


async def unpacked_source(source: Source, files: Mapping[str, Body], read: ReadBodies) -> Source:
    """Return the source of a run whose files travelled with it, such that they are found on this machine.

    Where the folder of the manifest has them unchanged, the source stays as it is.
    """
    if not files or await anyio.to_thread.run_sync(_has_all, Path(source.base), files):
        return source
    folder = await FileCache().unpack(files, read)
    return source.model_copy(update={"base": str(folder), "modules": source.module_folder})


def _has_all(place: Path, files: Mapping[str, Body]) -> bool:
    """Whether a folder has all files unchanged, without a link on the way."""
    try:
        for path, body in files.items():
            check_path(path)
            if body_of(_read(place, path)) != body:
                return False
    except (OSError, UsageError):
        return False
    return True


def _move(new: Path, place: Path) -> bool:
    """Move the folder to its place; returns False if something is there. An empty folder there is replaced."""
    try:
        new.rename(place)
    except OSError:
        if not os.path.lexists(place):  # it is no obstacle that another process may have removed
            raise
        return False
    return True


def _discard(place: Path) -> None:
    """Move away what is in place of a folder, then delete it, so that the place is never half empty."""
    old = place.with_name(f"{_OLD}{os.urandom(8).hex()}")
    with suppress(FileNotFoundError):
        place.rename(old)
        if old.is_symlink() or old.is_file():
            old.unlink()
        else:
            shutil.rmtree(old, ignore_errors=True)


def _read(place: Path, path: str) -> bytes:
    """Read a file below a folder, without following a link on the way; raises `OSError`."""
    parts = PurePosixPath(path).parts
    folder = place
    for part in ("", *parts[:-1]):
        folder = folder / part
        if folder.is_symlink():
            raise NotADirectoryError(str(folder))
    handle = os.open(folder / parts[-1], os.O_RDONLY | _NEVER_FOLLOW)
    with os.fdopen(handle, "rb") as opened:
        return opened.read(LARGEST_FILE + 1)
