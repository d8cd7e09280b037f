"""Follows a run once for all clients: reads, projects, masks and encodes each event one time.

A channel keeps the latest items in a window. Clients have a place in it and take what follows; a run never waits for
one, and a client that falls out of the window has to come back at its number. Who joins gets the recorded items after
its number, and then what is being written, each part whole.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from teamwright.runtime.live_runs import NOTIFIED_INTERVAL
from teamwright.runtime.relay.remote_run import RemoteRun
from teamwright.server.feeds.projection import Frame, MakeProjection
from teamwright.values.events.event import AnyDelta, Event

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine

WINDOW_ITEMS, WINDOW_BYTES = 4096, 8 * 1024 * 1024
CHUNK = 500
"""How many events are read and projected at once."""
DRIVEN_HERE, DRIVEN_ELSEWHERE, NOT_DRIVEN = 5.0, 0.1, 1.0
"""Seconds between two looks into the journal. What is driven here arrives by itself."""


class Channel:
    """One run under one projection. `number` is the last event that has been published."""

    def __init__(self, engine: Engine, run_id: str, make: MakeProjection) -> None:
        self._engine, self.run_id, self._make = engine, run_id, make
        self._projection = make(engine.journal, run_id)
        self._arrived = asyncio.Event()
        self._present: list[Event | AnyDelta] = []
        self._readers: list[Callable[[], None]] = []
        self._window: deque[Frame] = deque()
        self._bytes = 0
        self.first = 0
        self.number = self.dropped_number = 0
        self.is_caught_up = self.has_ended = False
        self.failure: Exception | None = None

    @property
    def end(self) -> int:
        """The position after the last item."""
        return self.first + len(self._window)

    def position_after(self, number: int) -> int | None:
        """Return the position of what follows an event; `None` if that has left the window."""
        if number < self.dropped_number:
            return None
        position = self.first
        for place, frame in enumerate(self._window, self.first + 1):
            if frame.number is not None and frame.number <= number:
                position = place
        return position

    def joined(self, position: int) -> list[Frame]:
        """Return the recorded items from a position on, and all that is being written."""
        recorded = [one for one in self.frames(position) if one.number is not None]
        return [*recorded, *self._projection.written()]

    def frames(self, position: int) -> list[Frame]:
        """Return the items from a position on."""
        return list(islice(self._window, position - self.first, None))

    def add_reader(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever there is something new."""
        self._readers.append(wake)

    def remove_reader(self, wake: Callable[[], None]) -> None:
        """Call `wake` no more."""
        self._readers.remove(wake)

    def fail(self, error: Exception) -> None:
        """End the feeds of the run, because its record can't be read."""
        self.failure = error
        self.wake()

    def arrive(self, item: Event | AnyDelta) -> None:
        """Take an item from the bus; it is published by `pump`."""
        self._present.append(item)
        self._arrived.set()

    async def replay(self, after: int, until: int) -> AsyncIterator[Sequence[Frame]]:
        """Yield the items of recorded events after one and up to another in groups, projected for one reader."""
        projection, number = self._make(self._engine.journal, self.run_id), 0
        while number < until:
            events = await self._engine.journal.read(self.run_id, number, CHUNK)
            if not events:
                return
            number = events[-1].number
            frames = await projection.project(events)
            if wanted := [one for one in frames if one.number is not None and after < one.number <= until]:
                yield wanted

    async def pump(self, is_driven_here: Callable[[], bool]) -> None:
        """Publish what is recorded and what arrives, until the run has ended for good."""
        journal, wake = self._engine.journal, self._arrived.set
        with (
            journal.watching(self.run_id, wake) as is_notified,
            RemoteRun(self._engine.relay, self.run_id, wake) as remote,
        ):
            elsewhere = NOTIFIED_INTERVAL if is_notified else DRIVEN_ELSEWHERE
            while not self.has_ended:
                self._arrived.clear()  # before what has arrived is looked at
                remote.begin_read()
                while events := await journal.read(self.run_id, self.number, CHUNK):
                    for event in events:
                        remote.note(event)
                    await self._publish(events)
                remote.end_read(self.number)
                if not self.is_caught_up:
                    self._join()
                if not self.has_ended and await self._publish_arrivals():
                    pieces = list(remote.deltas(self.number))
                    if not is_driven_here():
                        await self._publish(pieces)
                        remote.ask()
                    if not remote.is_ahead(self.number):
                        await self._wait(is_driven_here, elsewhere)
        self.wake()

    def _join(self) -> None:
        """Take what is being written here as one piece each; pieces that have arrived are within them, or over."""
        events = [item for item in self._present if isinstance(item, Event)]
        self._present = [*events, *self._engine.bus.written(self.run_id)]
        self.is_caught_up = True

    async def _publish_arrivals(self) -> bool:
        """Publish what came from the bus; returns false if an event between is missing, which the journal has."""
        while self._present and not self.has_ended:
            present, self._present = self._present, []
            batch: list[Event | AnyDelta] = []
            number = self.number
            for place, item in enumerate(present, 1):
                if isinstance(item, Event):
                    if item.number <= number:
                        continue
                    if item.number > number + 1:
                        self._present = present[place:] + self._present
                        await self._publish(batch)
                        return False
                    number = item.number
                batch.append(item)
            await self._publish(batch)
        return True

    async def _wait(self, is_driven_here: Callable[[], bool], elsewhere: float) -> None:
        """Wait for an arrival, or until it is time to look into the journal."""
        if is_driven_here():
            seconds = DRIVEN_HERE
        else:
            seconds = elsewhere if await self._engine.journal.is_driven(self.run_id) else NOT_DRIVEN
        if self._present or self._arrived.is_set():
            return
        try:
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        except TimeoutError:
            if await self._engine.journal.find(self.run_id) is None:  # it was deleted
                self.has_ended = True

    async def _publish(self, batch: Sequence[Event | AnyDelta]) -> None:
        if not batch:
            return
        for frame in await self._projection.project(batch):
            self._window.append(frame)
            self._bytes += len(frame.text)
        events = [item for item in batch if isinstance(item, Event)]
        if events:
            self.number = events[-1].number
            self.has_ended = events[-1].kind == "run.ended"
        self._trim()
        self.wake()

    def _trim(self) -> None:
        while len(self._window) > WINDOW_ITEMS or (self._bytes > WINDOW_BYTES and len(self._window) > 1):
            dropped = self._window.popleft()
            self._bytes -= len(dropped.text)
            self.first += 1
            self.dropped_number = max(self.dropped_number, dropped.number or 0)

    def wake(self) -> None:
        """Let all readers look again."""
        for wake in tuple(self._readers):
            wake()
