"""Files that only their owner can read: one that is replaced whole, and one that grows by lines.

A crash leaves the former as it was, and at most cuts the last line of the latter.
"""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from teamwright.journal.location import FILE_MODE, make_folder

Line = TypeVar("Line", bound=BaseModel)


def write_private(file: Path, value: object) -> None:
    """Replace a file, which only its owner can read."""
    make_folder(file.parent)
    part = file.with_suffix(".part")
    part.touch(mode=FILE_MODE)
    part.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    part.replace(file)


def file_version(file: Path) -> tuple[int, int] | None:
    """What changes whenever a file is replaced; `None` if there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


class JsonLines(Generic[Line]):
    """A file of lines of one type, which only grows. A line that a crash cut off is skipped."""

    def __init__(self, file: Path, line: type[Line]) -> None:
        self._file, self._line = file, line

    def write(self, line: Line) -> None:
        make_folder(self._file.parent)
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
        try:
            os.write(file, line.model_dump_json().encode() + b"\n")
        finally:
            os.close(file)

    def read(self, limit: int) -> list[Line]:
        """Return the last lines, newest first."""
        try:
            with self._file.open(encoding="utf-8", errors="replace") as lines:
                last = deque(lines, maxlen=limit)
        except FileNotFoundError:
            return []
        found: list[Line] = []
        for text in reversed(last):
            try:
                found.append(self._line.model_validate(json.loads(text)))
            except (ValueError, ValidationError):
                continue
        return found
