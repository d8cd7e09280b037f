"""Locates the user's data folder, and resolves a journal from a path, a URL, the word `memory`, or nothing.

The data folder is `TEAMWRIGHT_HOME`, or that of the platform; the default journal is `TEAMWRIGHT_JOURNAL`, or a file in
the data folder. Nothing is created here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from teamwright.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

MEMORY = "memory"
JOURNAL_VARIABLE = "TEAMWRIGHT_JOURNAL"
POSTGRES_SCHEMES = ("postgres://", "postgresql://")
_OTHER_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]+:/?/")
BUSY_TIMEOUT = 10.0
"""Seconds that a commit waits for another process that is writing."""


def data_folder() -> Path:
    """The folder of the default journal and its locks."""
    if home := os.environ.get("TEAMWRIGHT_HOME"):
        return Path(home).expanduser()
    from platformdirs import user_data_path

    return user_data_path("teamwright", appauthor=False)


def default_journal() -> Path:
    """The path of the journal in the data folder."""
    return data_folder() / "journal.db"


def companion_folder(journal: Path | str | None = None) -> Path:
    """The folder of files that belong to a journal, by default the user's: that of its file, or the data folder."""
    journal = journal or os.environ.get(JOURNAL_VARIABLE)
    if journal is None or is_url(journal) or journal == MEMORY:
        return data_folder()
    return Path(journal).expanduser().resolve().parent


def is_url(journal: object) -> TypeGuard[str]:
    """Whether a journal is named by the URL of a Postgres database."""
    return isinstance(journal, str) and journal.startswith(POSTGRES_SCHEMES)


def database_url(journal: object = None) -> str | None:
    """The URL of the Postgres database that a journal, by default the user's, is in; `None` if it is elsewhere."""
    named = os.environ.get(JOURNAL_VARIABLE) if journal is None else journal
    return named if is_url(named) else None


def resolve_journal(journal: Journal | Path | str | None = None, *, busy_timeout: float = BUSY_TIMEOUT) -> Journal:
    """Return a journal that is not yet open: `None` is the default journal, `"memory"` a new one in memory.

    A URL is that of a Postgres database. A path is that of a SQLite database, which uses `busy_timeout`.
    """
    if journal is None:
        journal = os.environ.get(JOURNAL_VARIABLE) or default_journal()
    if journal == "":
        raise UsageError("The journal's path is empty; pass a path, 'memory', or None for the default journal.")
    if journal == MEMORY:
        from teamwright.journal.memory import MemoryJournal

        return MemoryJournal()
    if is_url(journal):
        return _postgres_journal(journal)
    if isinstance(journal, str | Path):
        _check_path(str(journal))
        from teamwright.journal.sqlite.journal import SqliteJournal

        return SqliteJournal(journal, busy_timeout=busy_timeout)
    from teamwright.journal.protocol import Journal

    if not isinstance(journal, Journal):  # pyright: ignore[reportUnnecessaryIsInstance] - the caller may use no types
        raise UsageError(
            f"{type(journal).__name__!r} is no journal: inherit from `teamwright.journal.Journal`, and test the class"
            " with `teamwright.testing.JournalConformance`."
        )
    return journal


def _check_path(path: str) -> None:
    """Refuse the URL of something else, whose user and password would become the names of folders."""
    if found := _OTHER_URL.match(path):
        raise UsageError(
            f"A journal can't be at {found[0]}…: use the path of a file, 'memory', or the URL of a Postgres database,"
            " which begins with postgresql://"
        )


def _postgres_journal(url: str) -> Journal:
    try:
        from teamwright.journal.postgres.journal import PostgresJournal
    except ImportError as error:
        raise MissingExtra("postgres", "A journal in Postgres") from error
    return PostgresJournal(url)
