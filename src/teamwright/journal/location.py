"""Where the data of a user is: the data folder, the journal that is meant by a path, a URL or nothing, and its files.

The data folder is `TEAMWRIGHT_HOME`, or that of the platform; the default journal is `TEAMWRIGHT_JOURNAL`, or a file in
the data folder. Resolving a journal creates nothing. Files and folders of a journal are for this user alone, whatever
the umask is: nothing here follows a symbolic link, blocks on a special file, or opens the database, since closing a
second handle on it would release the locks of SQLite.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from teamwright.errors import JournalUnavailable, MissingExtra, UsageError

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal

MEMORY = "memory"
JOURNAL_VARIABLE = "TEAMWRIGHT_JOURNAL"
POSTGRES_SCHEMES = ("postgres://", "postgresql://")
_OTHER_URL = re.compile(r"(?i)[a-z][a-z0-9+.-]+:/?/")


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


def has_journal() -> bool:
    """Whether the user's journal is there: a database, which is not asked, or a file. Opening would create the file."""
    return database_url() is not None or Path(os.environ.get(JOURNAL_VARIABLE) or default_journal()).is_file()


def resolve_journal(journal: Journal | Path | str | None = None, *, busy_timeout: float | None = None) -> Journal:
    """Return a journal that is not yet open: `None` is the default journal, `"memory"` a new one in memory.

    A URL is that of a Postgres database. A path is that of a SQLite database, which uses `busy_timeout` if it is given.
    """
    if journal is None:
        journal = os.environ.get(JOURNAL_VARIABLE) or default_journal()
    if journal == "":
        raise UsageError("The journal's path is empty; pass a path, 'memory', or None for the default journal.")
    if journal == MEMORY:
        from teamwright.journal.in_memory_journal import MemoryJournal

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
    """Close a folder to others if it contains only files with these prefixes: it is used for nothing else."""
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
    import tempfile  # only a new journal needs it

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
