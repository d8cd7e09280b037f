"""What clients follow: the items of a run after an event, without a gap or a duplicate, then new ones.

A channel follows a run once for all clients: it reads, projects, masks and encodes each event one time, and keeps the
latest items in a window. Clients have a place in it and take what follows; a run never waits for one, and a client that
falls out of the window has to come back at its number. Who joins gets the recorded items after its number, read again
for it alone where they have left the window, and then what is being written, each part whole.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

import anyio

from teamwright.runtime.event_publisher import RemoteRun
from teamwright.runtime.run_control import NOTIFIED_INTERVAL
from teamwright.runtime.tasks import BackgroundTasks
from teamwright.server.frames import PROJECTIONS, Form, Frame, MakeProjection
from teamwright.values.events.event import AnyDelta, Event

if TYPE_CHECKING:
    from collections.abc import Container

    from teamwright.runtime.engine import Engine


HEARTBEAT = 15.0
"""Seconds of silence after which a client gets a sign of life, and after which it is checked whether it still may."""
WINDOW_ITEMS, WINDOW_BYTES = 4096, 8 * 1024 * 1024
STOPS = frozenset(("run.ended", "run.paused", "run.interrupted"))
"""The kinds of events after which there may be nothing more to follow."""
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
            RemoteRun(self._engine.driver.relay, self.run_id, wake) as remote,
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


class TooSlow(Exception):
    """A client takes less than arrives; `number` is the last event that it got."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"too slow; come back after event {number}")


@dataclass(slots=True)
class _Followed:
    channel: Channel
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    readers: int = 0


class Feeds:
    """All channels of a server. One listener on the engine's bus hands each item to the channels of its run."""

    def __init__(self, engine: Engine, driven: Container[str]) -> None:
        self._engine, self._driven = engine, driven
        self._channels: dict[tuple[str, Form], _Followed] = {}
        self._tasks = BackgroundTasks()
        self._closing = asyncio.Event()
        self._at_close: list[Callable[[], None]] = []

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[None]:
        """Follow runs for clients within this block."""
        await self._tasks.open()
        try:
            with self._engine.bus.listening(self._arrive):
                yield
        finally:
            self.close()
            await self._tasks.close()

    def at_close(self, call: Callable[[], None]) -> None:
        """Call this when the server stops."""
        self._at_close.append(call)

    def close(self) -> None:
        """End all feeds, because the server stops."""
        for call in () if self.is_closing else self._at_close:
            call()
        self._closing.set()
        for followed in self._channels.values():
            followed.channel.wake()

    @property
    def is_closing(self) -> bool:
        """Whether the server stops; its clients come back."""
        return self._closing.is_set()

    def is_followed(self, run_id: str) -> bool:
        return any((run_id, form) in self._channels for form in PROJECTIONS)

    @asynccontextmanager
    async def follow(
        self, run_id: str, after: int = 0, *, form: Form = "page", check: Callable[[], object] | None = None
    ) -> AsyncGenerator[Feed]:
        """Open a feed of a run after an event; `check` raises where its client has lost the right to it meanwhile."""
        followed = self._channels.get((run_id, form)) or self._begin(run_id, form)
        followed.readers += 1
        try:
            with Feed(self, followed.channel, after, check) as feed:
                yield feed
        finally:
            followed.readers -= 1
            if not followed.readers:
                followed.scope.cancel()
                self._forget(run_id, form, followed)

    def _begin(self, run_id: str, form: Form) -> _Followed:
        followed = _Followed(Channel(self._engine, run_id, PROJECTIONS[form]))
        self._channels[run_id, form] = followed
        self._tasks.group().start_soon(self._pump, followed, run_id, form)
        return followed

    async def _pump(self, followed: _Followed, run_id: str, form: Form) -> None:
        with followed.scope:
            try:
                await followed.channel.pump(lambda: run_id in self._driven)
            except Exception as error:  # noqa: BLE001 - a record that can't be read ends its feeds and no others
                followed.channel.fail(error)
        self._forget(run_id, form, followed)  # a client that comes later begins from the record

    def _forget(self, run_id: str, form: Form, followed: _Followed) -> None:
        if self._channels.get((run_id, form)) is followed:
            del self._channels[run_id, form]

    def _arrive(self, item: Event | AnyDelta) -> None:
        for form in PROJECTIONS:
            if (followed := self._channels.get((item.run_id, form))) is not None:
                followed.channel.arrive(item)


class Feed:
    """The place of one client in a channel. `number` is the last event that it got."""

    def __init__(self, feeds: Feeds, channel: Channel, after: int, check: Callable[[], object] | None) -> None:
        self._feeds, self._channel, self.number = feeds, channel, after
        self._check, self._checked = check, anyio.current_time()
        self._position: int | None = None
        self._joined: Sequence[Frame] = ()
        self._replay: AsyncIterator[Sequence[Frame]] | None = None
        self._until = self._floor = 0
        self._was_at_end = False
        self._woken = asyncio.Event()

    def __enter__(self) -> Feed:
        self._channel.add_reader(self._woken.set)
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.remove_reader(self._woken.set)

    async def next(self) -> Sequence[Frame] | None:
        """Return the next items; none after some seconds without any, and `None` where the run or the server has ended.

        Raises `TooSlow`, what makes the record unreadable, and what the check of the client raises.
        """
        frames = await self._next()
        if frames is not None and self._check is not None and anyio.current_time() - self._checked >= HEARTBEAT:
            self._check()
            self._checked = anyio.current_time()
        return frames

    async def _next(self) -> Sequence[Frame] | None:
        channel = self._channel
        while not self._feeds.is_closing:
            if self._replay is not None:
                if frames := await self._replayed():
                    return frames
            elif self._position is None:
                self._join()
            elif self._position < channel.first:
                if self._was_at_end:
                    raise TooSlow(self.number)
                self._position = None
            elif self._joined or self._position < channel.end:
                frames, self._joined = [*self._joined, *channel.frames(self._position)], ()
                self._position = channel.end
                if new := [one for one in frames if one.number is None or one.number > self._floor]:
                    return self._passed(new)
            elif channel.failure is not None:
                raise channel.failure
            elif channel.has_ended:
                return None
            else:
                self._was_at_end = channel.is_caught_up
                self._woken.clear()
                with anyio.move_on_after(HEARTBEAT) as waiting:
                    await self._woken.wait()
                if waiting.cancelled_caught:
                    return ()
        return None

    def _join(self) -> None:
        """Take what the window has for this client, which follows from then on; or begin to replay what has left it."""
        self._floor = self.number  # the channel may not have come so far yet
        position = self._channel.position_after(self.number)
        if position is None:
            self._until = self._channel.number
            self._replay = self._channel.replay(self.number, self._until)
        else:
            self._position, self._joined = self._channel.end, self._channel.joined(position)

    async def _replayed(self) -> Sequence[Frame]:
        assert self._replay is not None
        frames = await anext(self._replay, None)
        if frames is None:
            self._replay, self.number = None, max(self.number, self._until)
            return ()
        return self._passed(frames)

    def _passed(self, frames: Sequence[Frame]) -> Sequence[Frame]:
        self.number = max((frame.number or 0 for frame in frames), default=0) or self.number
        return frames
