"""Saves the content of an open database whose file was lost, as a journal in a new folder."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from teamwright.journal.permissions import make_file

FOLDER = "rescue-"
"""The prefix of such folders."""


def save_copy(connection: sqlite3.Connection, folder: Path, name: str) -> Path | None:
    """Copy a database into a new folder here or, failing that, in the temporary folder; None if neither works."""
    for parent in (folder, Path(tempfile.gettempdir())):
        with suppress(OSError, sqlite3.Error):
            saved = Path(tempfile.mkdtemp(prefix=FOLDER, dir=parent)) / name
            make_file(saved)
            with closing(sqlite3.connect(saved)) as copy:
                connection.backup(copy)
            return saved
    return None
