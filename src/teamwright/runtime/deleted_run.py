"""Runs that are deleted while somebody reads them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from teamwright.errors import JournalCorrupt, RunNotFound
from teamwright.journal.protocol import Journal


@asynccontextmanager
async def deleted_is_not_found(journal: Journal, run_id: str) -> AsyncGenerator[None]:
    """Raise `RunNotFound` where parts of a run are missing because it was deleted meanwhile: that is no damage."""
    try:
        yield
    except JournalCorrupt:
        if await journal.find(run_id) is not None:
            raise
        raise RunNotFound(run_id, [summary.id for summary in await journal.runs(200)]) from None
