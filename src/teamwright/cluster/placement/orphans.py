"""Cancels child runs whose parent has ended or was deleted, so that no run waits for them any more.

A parent that stops a branch cancels the child itself. This is for parents that died before they could, or that were
cancelled without a driver.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from teamwright.cluster.queue.client import QueueClient
from teamwright.cluster.queue.settings import is_branch_queue
from teamwright.errors import JournalError, RunError, RunIsLive
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.runtime.placement.protocol import CancelRun
from teamwright.values.events.run import RunStarted
from teamwright.values.results import FINAL, RunSummary

LOOK_SECONDS: Final = 2.0
LOCK: Final = "cluster/orphans"
"""The lock under which one worker at a time looks; no run has such an id."""
ORPHANED: Final = "the run that asked for it has ended"


class Orphans:
    """Looks after the child runs of the whole cluster; one worker at a time does so."""

    def __init__(self, journal: PostgresJournal, client: QueueClient, cancel: CancelRun) -> None:
        self._journal, self._client, self._cancel_run = journal, client, cancel
        self._parents: dict[str, str | None] = {}
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
        children = await self._open_children()
        self._parents = {child: await self._parent_of(child) for child in children}
        self._cancelled.intersection_update(children)
        wanted = {parent for parent in self._parents.values() if parent is not None}
        parents = await self._journal.summaries(wanted) if wanted else {}
        for child, parent in self._parents.items():
            if parent is None or child in self._cancelled or not _has_ended(parents.get(parent)):
                continue
            with suppress(RunError):  # it has ended, or a worker begins to drive it and finds the request
                await self._cancel_run(child, ORPHANED, wait=False)
            self._cancelled.add(child)

    async def _open_children(self) -> list[str]:
        """Return the runs in queues of branches; entries of other queues, which may be many, are not read."""
        entries = [one for one in await self._client.entries("parked") if is_branch_queue(one.queue)]
        for load in await self._client.load():
            if is_branch_queue(load.queue):
                entries += await self._client.entries("queued", "claimed", queue=load.queue)
        return [one.run_id for one in entries]

    async def _parent_of(self, child: str) -> str | None:
        """Return the run that placed this one; `None` if it was submitted by itself."""
        if child in self._parents:
            return self._parents[child]
        events = await self._journal.read(child, limit=1)
        started = events[0].fact if events else None
        origin = started.origin if isinstance(started, RunStarted) else None
        return origin.run_id if origin is not None and origin.how == "place" else None


def _has_ended(parent: RunSummary | None) -> bool:
    """Whether a run has ended, or was deleted."""
    return parent is None or parent.status in FINAL
