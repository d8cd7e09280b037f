"""Saves what an open database holds after its file was lost, as a journal in a folder that can be used as it is."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from teamwright.journal.permissions import make_file

FOLDER = "rescue-"
"""How the names of such folders begin."""


def save_copy(connection: sqlite3.Connection, folder: Path, name: str) -> Path | None:
    """Copy a database into a new folder here, or else among the system's temporary files; nothing if neither works."""
    for parent in (folder, Path(tempfile.gettempdir())):
        with suppress(OSError, sqlite3.Error):
            saved = Path(tempfile.mkdtemp(prefix=FOLDER, dir=parent)) / name
            make_file(saved)
            with closing(sqlite3.connect(saved)) as copy:
                connection.backup(copy)
            return saved
    return None
