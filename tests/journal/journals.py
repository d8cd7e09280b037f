"""Journals in files, for tests of their content."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from teamwright.journal.sqlite.journal import SqliteJournal


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[SqliteJournal]:
    """Open a journal for the time of the block."""
    journal = SqliteJournal(path)
    await journal.open()
    try:
        yield journal
    finally:
        await journal.close()
