"""Reports a run that is not in the journal, and tells one that was deleted while it was read from a damaged one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from teamwright.errors import JournalCorrupt, RunNotFound
from teamwright.journal.protocol import Journal


async def run_not_found(journal: Journal, run_id: str) -> RunNotFound:
    """Return the error for an unknown run, with the nearest id among the newest runs."""
    return RunNotFound(run_id, [summary.id for summary in await journal.runs(200)])


@asynccontextmanager
async def deleted_is_not_found(journal: Journal, run_id: str) -> AsyncGenerator[None]:
    """Raise `RunNotFound` instead of `JournalCorrupt` if parts of a run are missing because it was deleted."""
    try:
        yield
    except JournalCorrupt:
        if await journal.find(run_id) is not None:
            raise
        raise await run_not_found(journal, run_id) from None
