"""What one client follows: the items of a run after an event, without a gap or a duplicate, then new ones.

Recorded items that have left the window of the run's channel are read again for this client alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from teamwright.runtime.background_tasks import BackgroundTasks
from teamwright.server.feeds.channel import Channel
from teamwright.server.feeds.projection import PROJECTIONS, Form, Frame
from teamwright.values.events.event import AnyDelta, Event

if TYPE_CHECKING:
    from collections.abc import Container

    from teamwright.runtime.engine import Engine


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
        """Whether a client follows a run."""
        return any((run_id, form) in self._channels for form in PROJECTIONS)

    @asynccontextmanager
    async def follow(self, run_id: str, after: int = 0, *, form: Form = "page") -> AsyncGenerator[Feed]:
        """Open a feed of a run after an event."""
        followed = self._channels.get((run_id, form)) or self._begin(run_id, form)
        followed.readers += 1
        try:
            with Feed(self, followed.channel, after) as feed:
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

    def __init__(self, feeds: Feeds, channel: Channel, after: int) -> None:
        self._feeds, self._channel, self.number = feeds, channel, after
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

    async def next(self, seconds: float | None = None) -> Sequence[Frame] | None:
        """Return the next items; none after `seconds` without any, and `None` where the run or the server has ended.

        Raises `TooSlow`, or what makes the record unreadable.
        """
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
                with anyio.move_on_after(seconds) as waiting:
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
