"""The built-in tools `files`: files below one folder, for models and scripts, and nothing outside of it.

Whatever is written must be owned by the step that writes it, where steps own anything: a write elsewhere is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from pydantic import JsonValue

from teamwright.agents.python_tools import Arguments, Offer, PythonTool
from teamwright.agents.threads import to_the_end
from teamwright.errors import ToolError
from teamwright.values.ownership import Owned, covers

NAMES = ("read_file", "write_file", "list_files", "search_files")

MOST_LINES = 2000
MOST_LISTED = 500
MOST_FOUND = 100
LONGEST_LINE = 300
LARGEST = 1 << 20
"""Bytes of a file that is read or searched at all."""


class Files:
    """The files below a folder, as one call of a tool uses them."""

    def __init__(self, root: Path | None, owned: Owned, idempotency_key: str = "") -> None:
        self._root = (root or Path.cwd()).resolve()
        self._owned, self._key = owned, idempotency_key

    def read_file(self, path: str, first_line: int = 1, lines: int = MOST_LINES) -> JsonValue:
        """Read a text file. Of a long one you get some lines, and the number of the next line to read on from."""
        content = self._text(self._place(path))
        found = content.splitlines(keepends=True)
        first, count = max(1, first_line), min(max(1, lines), MOST_LINES)
        if first == 1 and len(found) <= count:
            return content
        shown = "".join(found[first - 1 : first - 1 + count])
        left = first - 1 + count < len(found)
        return {"content": shown, "lines": len(found), "next_line": first + count if left else None}

    def write_file(self, path: str, content: str) -> JsonValue:
        """Write a whole text file, in place of what was there. Folders on the way are made."""
        place = self._place(path)
        name = self._name(place)
        if not self._owned.may_write(name):
            raise ToolError(self._owned.refusal(name))
        if place.is_dir():
            raise ToolError(f"{name!r} is a folder; write a file in it.")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            _replace(place, content.encode(), self._key)
        except (FileExistsError, NotADirectoryError) as error:
            raise ToolError(f"{name!r} can't be written: something on the way to it is a file.") from error
        except UnicodeEncodeError as error:
            raise ToolError(f"What is to stand in {name!r} is no text: {error.reason}.") from error
        except OSError as error:
            raise ToolError(f"{name!r} can't be written: {error.strerror}.") from error
        return {"path": name, "bytes": place.stat().st_size}

    def list_files(self, pattern: str = "**") -> JsonValue:
        """List files by a pattern such as src/**/*.py; ** stands for any folders. Hidden ones must be named."""
        found = [self._name(place) for place in self._matching(pattern)]
        if len(found) <= MOST_LISTED:
            return list[JsonValue](found)
        return {"files": list[JsonValue](found[:MOST_LISTED]), "more": len(found) - MOST_LISTED}

    def search_files(self, text: str, pattern: str = "**") -> JsonValue:
        """Find the lines that hold a text, in files that a pattern such as src/**/*.py names."""
        if not text:
            raise ToolError("There is nothing to search for: give a text.")
        hits: list[JsonValue] = []
        for place in self._matching(pattern):
            for number, line in enumerate(_lines_of(place), start=1):
                if text in line:
                    hits.append({"path": self._name(place), "line": number, "text": line.strip()[:LONGEST_LINE]})
                    if len(hits) == MOST_FOUND:
                        return {"found": hits, "more": True}
        return hits

    def _place(self, path: str) -> Path:
        """Where a path really is; whatever leads out of the folder is refused, also over a link."""
        parts = PurePosixPath(path.replace("\\", "/")).parts
        try:
            place = self._root.joinpath(*parts).resolve() if path and ".." not in parts else None
        except (OSError, ValueError, RuntimeError):
            place = None
        if place is None or Path(path).is_absolute() or not place.is_relative_to(self._root):
            raise ToolError(f"{path!r} is no path below the folder of these tools; write it from there, without '..'.")
        return place

    def _name(self, place: Path) -> str:
        return place.relative_to(self._root).as_posix()

    def _text(self, place: Path) -> str:
        name = self._name(place)
        try:
            if place.stat().st_size > LARGEST:
                raise ToolError(f"{name!r} has more than {LARGEST >> 10} KiB; search it with search_files.")
            return place.read_bytes().decode()
        except FileNotFoundError as error:
            raise ToolError(f"There is no file {name!r}; list_files says which there are.") from error
        except UnicodeDecodeError as error:
            raise ToolError(f"{name!r} is no text.") from error
        except OSError as error:
            raise ToolError(f"{name!r} can't be read: {error.strerror}.") from error

    def _matching(self, pattern: str) -> Iterator[Path]:
        """Files in order of their names; links that lead out of the folder are not followed."""
        hidden = any(part.startswith(".") for part in pattern.split("/"))
        for folder, folders, names in os.walk(self._root):
            if not hidden:
                folders[:] = [one for one in folders if not one.startswith(".")]
            folders.sort()
            for name in sorted(names):
                place = Path(folder, name)
                shown = hidden or not name.startswith(".")
                if shown and covers(pattern, self._name(place)) and self._is_inside(place):
                    yield place

    def _is_inside(self, place: Path) -> bool:
        return place.is_file() and place.resolve().is_relative_to(self._root)


class FileTool:
    """One of these tools, for one turn."""

    def __init__(self, name: str, root: Path | None, owned: Owned) -> None:
        self._name, self._root, self._owned = name, root, owned

    @property
    def offer(self) -> Offer:
        """The tool as a model sees it."""
        return _signature(self._name).offer

    def fit(self, arguments: Arguments) -> Arguments:
        """Check the arguments."""
        return _signature(self._name).fit(arguments)

    async def call(self, arguments: Arguments, *, idempotency_key: str, place: str) -> JsonValue:
        """Do it in a thread, and to its end even when the turn is stopped: no write outlives what its step owns."""

        def work() -> JsonValue:
            return getattr(Files(self._root, self._owned, idempotency_key), self._name)(**arguments)

        return await to_the_end(work)


@cache
def _signature(name: str) -> PythonTool:
    return PythonTool(getattr(Files(None, Owned()), name))


def _replace(place: Path, content: bytes, key: str) -> None:
    """Write a file all at once; what a crash leaves behind has a name that the same call would use again."""
    draft = place.with_name(f".{place.name[:100]}.{key[:12] or 'draft'}.tmp")
    mode = place.stat().st_mode & 0o777 if place.exists() else None
    try:
        with draft.open("wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        if mode is not None:
            draft.chmod(mode)
        draft.replace(place)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _lines_of(place: Path) -> list[str]:
    """The lines of a text file; none of what is too large or no text."""
    try:
        return place.read_bytes().decode().splitlines() if place.stat().st_size <= LARGEST else []
    except (OSError, UnicodeDecodeError):
        return []
