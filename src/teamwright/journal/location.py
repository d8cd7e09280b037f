"""Locates the user's data folder, and resolves a journal from a path, the word `memory`, or nothing.

The data folder is `TEAMWRIGHT_HOME`, or that of the platform. Nothing is created here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.errors import UsageError

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

BUSY_TIMEOUT = 10.0
"""Seconds that a commit waits for another process that is writing."""


def data_folder() -> Path:
    """The folder of the default journal and its locks."""
    if home := os.environ.get("TEAMWRIGHT_HOME"):
        return Path(home).expanduser()
    from platformdirs import user_data_path

    return user_data_path("teamwright", appauthor=False)


def default_journal() -> Path:
    """The path of the default journal."""
    return data_folder() / "journal.db"


def resolve_journal(journal: Journal | Path | str | None = None, *, busy_timeout: float = BUSY_TIMEOUT) -> Journal:
    """Return a journal that is not yet open: `None` is the default journal, `"memory"` a new one in memory.

    A path is that of a SQLite database, which uses `busy_timeout`. Any other object must implement `Journal`.
    """
    if journal == "":
        raise UsageError("The journal's path is empty; pass a path, 'memory', or None for the default journal.")
    if journal == "memory":
        from teamwright.journal.memory import MemoryJournal

        return MemoryJournal()
    if journal is None or isinstance(journal, str | Path):
        from teamwright.journal.sqlite.journal import SqliteJournal

        return SqliteJournal(default_journal() if journal is None else journal, busy_timeout=busy_timeout)
    from teamwright.journal.protocol import missing_members

    if missing := missing_members(journal):
        raise UsageError(
            f"{type(journal).__name__!r} is no journal: it lacks {', '.join(missing)}. Implement"
            " `teamwright.journal.Journal`, and test it with `teamwright.testing.JournalConformance`."
        )
    return journal
