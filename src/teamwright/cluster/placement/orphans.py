"""Cancels child runs whose parent has ended or was deleted, so that no run waits for them any more.

A parent that stops a branch cancels the child itself. This is for parents that died before they could, or that were
cancelled without a driver.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from teamwright.cluster.queue.client import QueueClient
from teamwright.errors import JournalError, RunError, RunIsLive
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.runtime.placement.protocol import CancelRun

LOOK_SECONDS: Final = 2.0
LOCK: Final = "cluster/orphans"
"""The lock under which one worker at a time looks; no run has such an id."""
ORPHANED: Final = "the run that asked for it has ended"


class Orphans:
    """Looks after the child runs of the whole cluster; one worker at a time does so."""

    def __init__(self, journal: PostgresJournal, client: QueueClient, cancel: CancelRun) -> None:
        self._journal, self._client, self._cancel_run = journal, client, cancel
        self._cancelled: set[str] = set()

    async def watch(self) -> None:
        """Look again and again, also after the database was away."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(RunIsLive, JournalError):
                async with self._journal.drive(LOCK):
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
