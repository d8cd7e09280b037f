"""Waits for the ends of child runs: one task of a process looks after all of them, when the journal has changed."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from teamwright.errors import JournalError
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.runtime.bus import Bus
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.results import FINAL

LOOK_SECONDS: Final = 0.02
"""The least time between two looks, in which the ends of several children are noticed together."""
POLL_SECONDS: Final = 2.0
"""How long it waits for a notification before it looks by itself."""


class WaitingChildren:
    """The children that runs of this process wait for. They hold nothing while they wait."""

    def __init__(self, journal: PostgresJournal, bus: Bus) -> None:
        self._journal, self._bus = journal, bus
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._parents: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None

    @property
    def parents(self) -> set[str]:
        """The runs that wait for children."""
        return set(self._parents.values())

    async def wait(self, run_id: str, parent: str) -> None:
        """Wait until a child run has ended."""
        self._ends[run_id] = end = asyncio.get_running_loop().create_future()
        self._parents[run_id] = parent
        self._changed.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name="child runs")
        changes = self._journal.changes
        assert changes is not None
        try:
            with changes.watching(run_id, self._changed.set):
                await end
        finally:
            del self._ends[run_id], self._parents[run_id]

    async def close(self) -> None:
        """Stop looking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look(self) -> None:
        """Look for ends until no child is waited for."""
        with self._bus.listening(self._hear):
            while self._ends:
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_SECONDS):
                        await self._changed.wait()
                self._changed.clear()
                with suppress(JournalError):  # the parents report it; here we look again
                    for run in (await self._journal.summaries(list(self._ends))).values():
                        if run.status in FINAL and (end := self._ends.get(run.id)) is not None and not end.done():
                            end.set_result(None)
                await asyncio.sleep(LOOK_SECONDS)

    def _hear(self, item: Event | AnyDelta) -> None:
        """Hear the end of a child that this process drives itself."""
        if isinstance(item, Event) and item.run_id in self._ends and item.kind == "run.ended":
            self._changed.set()
