"""Where the data of a user lives, and which journal is meant where one is named by a word, a path or nothing.

The user's data is in `TEAMWRIGHT_HOME`, or in the platform's data folder. Nothing is created here.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.errors import UsageError

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

BUSY_TIMEOUT = 10.0
"""Seconds that a commit waits for another process which is writing."""


def data_folder() -> Path:
    """The folder of the journal and its locks."""
    if home := os.environ.get("TEAMWRIGHT_HOME"):
        return Path(home).expanduser()
    from platformdirs import user_data_path

    return user_data_path("teamwright", appauthor=False)


def default_journal() -> Path:
    """The journal that is used where nobody names one."""
    return data_folder() / "journal.db"


def resolve_journal(journal: Journal | Path | str | None = None, *, busy_timeout: float = BUSY_TIMEOUT) -> Journal:
    """Return the journal that is meant, not yet open: `None` is the user's, `"memory"` a new one in memory.

    A path names a database, and `busy_timeout` is for that one. A journal of one's own is checked for what it lacks.
    """
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
