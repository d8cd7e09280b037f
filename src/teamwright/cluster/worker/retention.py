"""Retention: deletes runs that ended long ago, with their child runs, while workers drive others.

One worker at a time looks, by the clock of the database, and deletes a few runs at once: commits wait meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import Final

from teamwright.cluster.worker.log import WorkerReport
from teamwright.errors import JournalError, RunIsLive
from teamwright.journal.postgres.journal import PostgresJournal

LOOK_SECONDS: Final = 60.0
MOST_DELETED: Final = 20
"""The most runs that are deleted at once, besides their children."""
PAUSE_SECONDS: Final = 0.5
LOCK: Final = "cluster/retention"
"""The lock under which one worker at a time looks; no run has such an id."""


class Retention:
    """Deletes runs that ended more than `seconds` ago."""

    def __init__(self, journal: PostgresJournal, seconds: float, report: WorkerReport) -> None:
        self._journal, self._seconds, self._report = journal, seconds, report

    async def watch(self) -> None:
        """Look again and again, also after the database was away."""
        while True:
            try:
                async with self._journal.drive(LOCK):
                    while await self.look():  # noqa: ASYNC110 - others commit in the pause
                        await asyncio.sleep(PAUSE_SECONDS)
            except RunIsLive:
                pass  # another worker looks, or drives a child of what was to be deleted
            except JournalError as error:
                self._report("trouble", detail=f"can't delete old runs: {error}")
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> bool:
        """Delete the oldest runs that are due; returns whether there may be more."""
        due = await self._journal.cluster.ended_before(self._seconds, MOST_DELETED)
        children = await self._journal.descendants(due)
        for run_id in due:
            self._report("deleted", run_id)
        if due:
            await self._journal.delete([*due, *(one.id for one in children)])
        return len(due) == MOST_DELETED
