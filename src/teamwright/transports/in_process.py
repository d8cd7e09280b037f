"""The transport of one process: bounded queues on one event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from teamwright.errors import UsageError
from teamwright.transports.protocol import MOST_QUEUED, LiveSignal, SignalHandler, Traffic, Transport

LOG = logging.getLogger("teamwright")
BEGUN = LiveSignal(type="wake", run_id="")
"""What a listener yields as it begins; no reader receives it."""


class InProcessTransport(Transport):
    """The transport of one event loop, with bounded queues."""

    def __init__(self, most_queued: int = MOST_QUEUED) -> None:
        if most_queued < 1:
            raise UsageError(f"A queue of {most_queued!r} signals delivers none; let it hold 1 or more.")
        self._most, self._closed = most_queued, False
        self.traffic = Traffic()  # of other processes, of which it reaches none
        self._queues: dict[str, list[deque[LiveSignal]]] = {}
        self._handlers: dict[str, list[SignalHandler]] = {}
        self._changed = asyncio.Condition()
        self.listened: Callable[[str], None] = lambda _: None
        """Called with a channel when someone begins or ceases to listen to it."""

    async def send(self, channel: str, signal: LiveSignal) -> None:
        """Queue a signal for each listener, and call each handler."""
        for queue in tuple(self._queues.get(channel, ())):
            async with self._changed:
                await self._changed.wait_for(lambda queue=queue: self._takes(channel, queue))
                if not self._closed:
                    queue.append(signal)
                self._changed.notify_all()
        await self._handle(channel, signal)

    async def offer(self, channel: str, signal: LiveSignal) -> bool:
        """Send a signal without waiting for listeners; returns whether each of them had room for it."""
        taken = True
        async with self._changed:
            for queue in self._queues.get(channel, ()):
                if len(queue) < self._most:
                    queue.append(signal)
                else:
                    taken = False
            self._changed.notify_all()
        await self._handle(channel, signal)
        return taken

    async def _handle(self, channel: str, signal: LiveSignal) -> None:
        """Call each handler; where one fails, the others get the signal all the same."""
        for handler in tuple(self._handlers.get(channel, ())):
            if not self._closed:
                try:
                    await handler(signal)
                except Exception:
                    LOG.exception("a handler of live signals failed")

    def has_listeners(self, channel: str) -> bool:
        """Whether anyone listens to a channel, or handles its signals."""
        return channel in self._queues or channel in self._handlers

    def _takes(self, channel: str, queue: deque[LiveSignal]) -> bool:
        """Whether a sender need not wait for a queue: it has room, or its listener has gone."""
        listening = self._queues.get(channel, ())
        return self._closed or len(queue) < self._most or not any(one is queue for one in listening)

    def listen(self, channel: str) -> AsyncGenerator[LiveSignal]:
        """Listen from the moment of this call, not of the first step."""
        queue = deque[LiveSignal]()
        self._queues.setdefault(channel, []).append(queue)
        signals = self._signals(channel, queue)
        with suppress(StopIteration):  # at BEGUN: closing a generator that has not begun would run no `finally`
            signals.asend(None).send(None)
        self.listened(channel)
        return signals

    async def _signals(self, channel: str, queue: deque[LiveSignal]) -> AsyncGenerator[LiveSignal]:
        try:
            yield BEGUN
            while True:
                async with self._changed:
                    await self._changed.wait_for(lambda: self._closed or queue)
                    if not queue:
                        return
                    signal = queue.popleft()
                    self._changed.notify_all()
                yield signal
        finally:
            self._leave(channel, queue)
            async with self._changed:
                self._changed.notify_all()

    def _leave(self, channel: str, queue: deque[LiveSignal]) -> None:
        """Remove the queue of a listener, and a channel without any."""
        listening = self._queues[channel] = [one for one in self._queues[channel] if one is not queue]
        if not listening:
            del self._queues[channel]
        self.listened(channel)

    def register(self, channel: str, handler: SignalHandler) -> Callable[[], None]:
        """Add a handler; returns what removes it."""
        self._handlers.setdefault(channel, []).append(handler)
        self.listened(channel)

        def remove() -> None:
            handlers = self._handlers.get(channel, [])
            if handler in handlers:
                handlers.remove(handler)
            if not handlers:
                self._handlers.pop(channel, None)
            self.listened(channel)

        return remove

    async def close(self) -> None:
        """Wake everyone; what is queued is still delivered."""
        async with self._changed:
            self._closed = True
            self._changed.notify_all()
