"""Waits for the ends of child runs: one task of a process looks after all of them, when the journal has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Final

from teamwright.errors import JournalError
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.runtime.bus import Bus
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.results import FINAL

LOOK_SECONDS: Final = 0.02
"""The least time between two looks, in which the ends of several children are noticed together."""
POLL_SECONDS: Final = 2.0
"""How often it looks at all of them: a notification may be lost."""


class WaitingChildren:
    """The children that runs of this process wait for. They hold nothing while they wait."""

    def __init__(self, journal: PostgresJournal, bus: Bus) -> None:
        self._journal, self._bus = journal, bus
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._parents: dict[str, str] = {}
        self._changed, self._due = asyncio.Event(), set[str]()
        self._looking: asyncio.Task[None] | None = None

    @property
    def parents(self) -> set[str]:
        """The runs that wait for children."""
        return set(self._parents.values())

    async def wait(self, run_id: str, parent: str) -> None:
        """Wait until a child run has ended, or was deleted."""
        self._ends[run_id] = end = asyncio.get_running_loop().create_future()
        self._parents[run_id] = parent
        self._change(run_id)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="child runs")
        try:
            with self._journal.watching(run_id, partial(self._change, run_id)):
                await end
        finally:
            del self._ends[run_id], self._parents[run_id]

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look(self) -> None:
        """Look for ends until no child is waited for: at the children that have changed, and at all after a while."""
        loop = asyncio.get_running_loop()
        poll_at = loop.time() + POLL_SECONDS
        with self._bus.observing(self._hear):
            while self._ends:
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(poll_at):
                        await self._changed.wait()
                self._changed.clear()
                due, self._due = self._due, set[str]()
                if loop.time() >= poll_at:
                    due, poll_at = set(self._ends), loop.time() + POLL_SECONDS
                with suppress(JournalError):  # the parents report it; here we look again
                    await self._end_finished(due)
                await asyncio.sleep(LOOK_SECONDS)

    async def _end_finished(self, run_ids: Collection[str]) -> None:
        found = await self._journal.cluster.summaries(list(run_ids))
        for run_id in run_ids:
            run, end = found.get(run_id), self._ends.get(run_id)
            if end is not None and not end.done() and (run is None or run.status in FINAL):
                end.set_result(None)

    def _change(self, run_id: str) -> None:
        self._due.add(run_id)
        self._changed.set()

    def _hear(self, event: Event | AnyDelta) -> None:
        """Hear the end of a child that this process drives itself."""
        if event.run_id in self._ends and event.kind == "run.ended":
            self._change(event.run_id)
