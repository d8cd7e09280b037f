"""Tells a run that was deleted while it was being read from a damaged journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from teamwright.errors import JournalCorrupt, RunNotFound
from teamwright.journal.protocol import Journal


@asynccontextmanager
async def deleted_is_not_found(journal: Journal, run_id: str) -> AsyncGenerator[None]:
    """Raise `RunNotFound` instead of `JournalCorrupt` if parts of a run are missing because it was deleted."""
    try:
        yield
    except JournalCorrupt:
        if await journal.find(run_id) is not None:
            raise
        raise RunNotFound(run_id, [summary.id for summary in await journal.runs(200)]) from None
