"""Reads the page events of a run from its journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection

from teamwright.history.record.asks import RecordedBodies
from teamwright.journal.protocol import Journal
from teamwright.server.page.page_events import PageEvent
from teamwright.server.page.projection.projection import PageProjection, needed_bodies
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event

BATCH = 200
"""The events whose texts are read at once."""
NO_BODIES = RecordedBodies()


class PageReader:
    """Projects the events of one run, in order, and reads the texts that they need."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal, self._run_id = journal, run_id
        self.projection = PageProjection()
        self.number = 0
        """The number of the last event that was applied."""

    async def catch_up(self, number: int) -> None:
        """Apply the events up to a number, whose page events the client has already."""
        while number > self.number:
            events = await self._journal.read(self._run_id, self.number, min(BATCH, number - self.number))
            if not events:
                return
            for event in events:
                self.projection.catch_up(event, await self._read(needed_bodies(event, catching_up=True)))
                self.number = event.number

    async def page_events(self, event: Event) -> list[PageEvent]:
        """Apply the next event, and return its page events."""
        bodies = await self._read(needed_bodies(event))
        self.number = event.number
        return self.projection.apply(event, bodies)

    async def recorded(self, limit: int | None = None) -> AsyncGenerator[PageEvent]:
        """Yield the page events of all recorded events that were not applied yet, or of the first `limit` of them."""
        last = None if limit is None else self.number + limit
        while events := await self._journal.read(self._run_id, self.number, _batch(self.number, last)):
            bodies = await self._read({body for event in events for body in needed_bodies(event)})
            for event in events:
                self.number = event.number
                for one in self.projection.apply(event, bodies):
                    yield one

    async def _read(self, needed: Collection[Body]) -> RecordedBodies:
        return RecordedBodies(await self._journal.bodies(needed)) if needed else NO_BODIES


def _batch(number: int, last: int | None) -> int:
    return BATCH if last is None else min(BATCH, last - number)


async def read_page_events(journal: Journal, run_id: str, after: int = 0, limit: int | None = None) -> list[PageEvent]:
    """Return the page events of the recorded events of a run after a number, or of the first `limit` of them."""
    reader = PageReader(journal, run_id)
    await reader.catch_up(after)
    return [event async for event in reader.recorded(limit)]
