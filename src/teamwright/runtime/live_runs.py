"""The runs that this engine drives, and the delivery of inbox items to them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import anyio

from teamwright.errors import JournalCorrupt, JournalError, JournalTooNew

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.run_control import RunControl


POLL_INTERVAL = 0.08
"""Seconds between two polls of a journal that can't notify of changes."""
NOTIFIED_INTERVAL = 1.0
"""Seconds between two polls of one that can, in case a notification or a driver was lost."""


class LiveRuns:
    """Runs by id, from their launch until their driver has released them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._runs: dict[str, RunControl] = {}
        self._launched = anyio.Event()
        self._watchers: list[Callable[[], None]] = []

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def __iter__(self) -> Iterator[RunControl]:
        return iter(list(self._runs.values()))

    def get(self, run_id: str) -> RunControl | None:
        """Return the run of this id, or `None` if it is not driven here."""
        return self._runs.get(run_id)

    def add(self, run: RunControl) -> None:
        self._runs[run.run_id] = run
        self._launched.set()

    def remove(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        for watcher in tuple(self._watchers):
            watcher()

    @contextmanager
    def watching(self, watcher: Callable[[], None]) -> Generator[None]:
        """For the duration of the block, call this whenever a run is no longer driven here."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    async def watch_inboxes(self) -> None:
        """Deliver inbox items as they arrive, until cancelled. The journal is not polled while no run is live."""
        while True:
            if not self._runs:
                self._launched = anyio.Event()
                await self._launched.wait()
            with suppress(JournalError):  # the run that writes to the journal reports it; here we poll again
                await self._journal.changed(POLL_INTERVAL)
                await self.deliver_inboxes()

    async def deliver_inboxes(self) -> None:
        """Pass each run the inbox items that it has not received yet."""
        for run in self:
            try:
                items = await self._journal.inbox(run.run_id, run.last_inbox_id)
            except (JournalCorrupt, JournalTooNew) as error:  # a run must not wait for ever for an unreadable inbox
                run.journal_failed(error)
                continue
            for item in items:
                run.receive(item, await run.refusal_of(item))
