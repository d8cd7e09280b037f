"""Transports carry wake-ups and live text between those who watch a run, never the record: the contract, and the
transport of one process.

What counts is in the journal, and a reader that misses a signal finds it there. So an unknown channel drops what it is
sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from msgspec import Meta
from msgspec.structs import asdict

from teamwright.errors import UsageError
from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Delta, OutputForm, ThinkingDelta
from teamwright.values.value import Record
from teamwright.wings import required_hook

MOST_QUEUED = 1024
"""How many signals wait for one listener; a sender waits while a queue is full."""

Count = Annotated[int, Meta(ge=0)]
Part = Literal["text", "thinking", "arguments"]
FORMS: dict[Part, type[AnyDelta]] = {"text": Delta, "thinking": ThinkingDelta, "arguments": ArgumentsDelta}
"""The parts of a response, and their pieces, whose fields a signal has too."""


@dataclass(slots=True)
class Traffic:
    """What a transport has carried to and from other processes since it was made."""

    sent: int = 0
    received: int = 0
    dropped: int = 0
    """Signals that found a queue full, the server away, or were too large."""
    invalid: int = 0
    """Messages that are none of this program."""
    losses: int = 0
    """How often a connection was lost, or could not be made."""


class LiveSignal(Record, frozen=True, forbid_unknown_fields=False):
    """A wake-up, a piece of text, or the word of a follower.

    A `wake` says that the journal has an event with this `number`. A `text` is a piece of what a member is writing:
    `number` is the last event before it, `sequence` counts the pieces that its driver has sent, and the other fields
    are those of the delta. A `follow` asks the driver of a run for both, for some seconds; with a `follower`, a name
    that it has made up, also for what is written so far. The answer, texts with that name, is for no other follower.
    """

    type: Literal["wake", "text", "follow"]
    run_id: str
    number: Count = 0
    member: str = ""
    text: str = ""
    sequence: Count = 0
    part: Part = "text"
    key: str = ""
    attempt: Count = 0
    offset: Count = 0
    output: OutputForm | None = None
    tool: str = ""
    call: Count = 0
    steps: tuple[str, ...] = ()
    follower: Annotated[str, Meta(max_length=64)] = ""

    @classmethod
    def of_delta(cls, delta: AnyDelta, number: int, sequence: int = 0, follower: str = "") -> LiveSignal:
        """Return the signal for a piece of a response."""
        part: Part = next(part for part, form in FORMS.items() if isinstance(delta, form))
        return cls(type="text", part=part, number=number, sequence=sequence, follower=follower, **asdict(delta))

    def to_delta(self) -> AnyDelta:
        """Return the piece of a response that a `text` carries."""
        form = FORMS[self.part]
        return form(**{name: getattr(self, name) for name in form.__struct_fields__})


SignalHandler = Callable[[LiveSignal], Awaitable[None]]


class Transport(Protocol):
    """Channels by name. Each listener and each handler of a channel receives all of its signals, in order."""

    traffic: Traffic

    async def send(self, channel: str, signal: LiveSignal) -> None:
        """Send a signal to everyone who listens now; waits while a queue is full. An unknown channel drops it."""
        ...

    def listen(self, channel: str) -> AsyncGenerator[LiveSignal]:
        """Yield the signals that are sent from now on, until the transport closes."""
        ...

    def register(self, channel: str, handler: SignalHandler) -> Callable[[], None]:
        """Call `handler` with each signal, within `send`; returns what removes it. One that fails is logged."""
        ...

    async def close(self) -> None:
        """Wake everyone who waits: listeners end, and senders return."""
        ...


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


REDIS_VARIABLE = "TEAMWRIGHT_REDIS"


def named_redis() -> str | None:
    """The URL of the user's Redis server, if there is one."""
    return os.environ.get(REDIS_VARIABLE) or None


@asynccontextmanager
async def opened_transport(given: Transport | str | None, *, by_default: bool) -> AsyncGenerator[Transport | None]:
    """Yield the transport that is given, or one over the Redis server of this URL, which is closed at the end.

    Where none is given, it is the user's server, if there is one and it is wanted `by_default`.
    """
    if given is None:
        given = named_redis() if by_default else None
    if not isinstance(given, str):
        yield given
        return
    transport: Transport = required_hook("live_transport", "Live text over Redis")(given)
    try:
        yield transport
    finally:
        await transport.close()
