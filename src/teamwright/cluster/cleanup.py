"""Cleanup of the cluster, by every worker and one at a time: child runs without a parent, and runs that ended long ago.

*Orphans* are child runs whose parent has ended: a parent that stops a branch cancels the child itself, unless it died
before, or was cancelled without a driver. *Retention* deletes runs that ended long ago, by the clock of the database, a
few at once: commits wait meanwhile.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from teamwright.cluster.queue_client import QueueClient
from teamwright.cluster.worker_log import WorkerReport
from teamwright.errors import JournalError, RunError, RunIsLive
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.runtime.placement import CancelRun

ORPHANS_SECONDS: Final = 2.0
ORPHANS_LOCK: Final = "cluster/orphans"
"""The lock under which one worker at a time looks; no run has such an id."""
ORPHANED: Final = "the run that asked for it has ended"
RETENTION_SECONDS: Final = 60.0
"""The longest wait between two looks; runs that are kept for less are looked at as often as that."""
MOST_DELETED: Final = 20
"""The most runs that are deleted at once, besides their children."""
PAUSE_SECONDS: Final = 0.5
RETENTION_LOCK: Final = "cluster/retention"
"""The lock under which one worker at a time looks; no run has such an id."""


class Orphans:
    """Looks after the child runs of the whole cluster; one worker at a time does so."""

    def __init__(self, journal: PostgresJournal, client: QueueClient, cancel: CancelRun) -> None:
        self._journal, self._client, self._cancel_run = journal, client, cancel
        self._cancelled: set[str] = set()

    async def watch(self) -> None:
        """Look again and again, also after the database was away."""
        while True:
            await asyncio.sleep(ORPHANS_SECONDS)
            with suppress(RunIsLive, JournalError):
                async with self._journal.drive(ORPHANS_LOCK):
                    await self.cancel()

    async def cancel(self) -> None:
        """Cancel the open children of parents that have ended."""
        orphans = await self._client.orphans()
        self._cancelled.intersection_update(orphans)
        for child in orphans:
            if child not in self._cancelled:
                with suppress(RunError):  # it has ended, or a worker begins to drive it and finds the request
                    await self._cancel_run(child, ORPHANED, wait=False)
                self._cancelled.add(child)


class Retention:
    """Deletes runs that ended more than `seconds` ago."""

    def __init__(self, journal: PostgresJournal, seconds: float, report: WorkerReport) -> None:
        self._journal, self._seconds, self._report = journal, seconds, report

    async def watch(self) -> None:
        """Look again and again, also after the database was away."""
        while True:
            try:
                async with self._journal.drive(RETENTION_LOCK):
                    while await self.look():  # noqa: ASYNC110 - others commit in the pause
                        await asyncio.sleep(PAUSE_SECONDS)
            except RunIsLive:
                pass  # another worker looks, or drives a child of what was to be deleted
            except JournalError as error:
                self._report("trouble", detail=f"can't delete old runs: {error}")
            await asyncio.sleep(max(PAUSE_SECONDS, min(self._seconds, RETENTION_SECONDS)))

    async def look(self) -> bool:
        """Delete the oldest runs that are due; returns whether there may be more."""
        due = await self._journal.cluster.ended_before(self._seconds, MOST_DELETED)
        children = await self._journal.descendants(due)
        for run_id in due:
            self._report("deleted", run_id)
        if due:
            await self._journal.delete([*due, *(one.id for one in children)])
        return len(due) == MOST_DELETED
