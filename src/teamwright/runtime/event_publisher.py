"""Publishes durable events and pieces of replies: to listeners in this process, and over a transport to others.

Nothing flows back to the run, and no run waits for the transport. A follower in another process asks every second, and
nothing is sent for a run that has none. A signal may be lost, late, or forged by anyone who may write to the transport.
So a piece is passed on only after the events before it, never after the event that replaces it, and never without all
of its text before it: a secret is known by its beginning.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from os import urandom
from time import monotonic
from typing import TYPE_CHECKING, Protocol, Self

from teamwright.runtime.transport import LiveSignal, SignalHandler, Traffic, Transport
from teamwright.values.events.agent import AgentAbandoned, AgentCallFailed, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import AnyDelta, Event

if TYPE_CHECKING:
    import asyncio


Listener = Callable[[Event | AnyDelta], None]


class OpenPart(Protocol):
    """A part of a response that is being written."""

    def written(self) -> AnyDelta | None:
        """Return all of it so far as one piece, which begins the part; `None` if there is nothing yet."""
        ...


class Bus:
    """Passes each event to the listeners of its run, and to those of all runs.

    A listener must return at once and cannot change anything.
    """

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._by_run: dict[str, list[Listener]] = {}
        self._event_listeners: list[Listener] = []
        self._open: dict[str, dict[OpenPart, None]] = {}

    @contextmanager
    def listening(self, listener: Listener, run_id: str | None = None) -> Generator[None]:
        """Register a listener, of one run or of all, for the duration of the block."""
        listeners = self._listeners if run_id is None else self._by_run.setdefault(run_id, [])
        listeners.append(listener)
        try:
            yield
        finally:
            listeners.remove(listener)
            if run_id is not None and not listeners and self._by_run.get(run_id) is listeners:
                del self._by_run[run_id]

    @contextmanager
    def observing(self, listener: Listener) -> Generator[None]:
        """Register a listener of events alone, of all runs, for the duration of the block: no model streams for it."""
        self._event_listeners.append(listener)
        try:
            yield
        finally:
            self._event_listeners.remove(listener)

    def publish(self, events: Iterable[Event]) -> None:
        if self._listeners or self._by_run or self._event_listeners:
            for event in events:
                self._pass(event)
                for listener in tuple(self._event_listeners):
                    listener(event)

    def publish_delta(self, delta: AnyDelta) -> None:
        """Pass a piece of a response, while it is being written, to its listeners."""
        self._pass(delta)

    def open_part(self, run_id: str, part: OpenPart) -> None:
        """Remember a part that is being written, until it is closed."""
        self._open.setdefault(run_id, {})[part] = None

    def close_part(self, run_id: str, part: OpenPart) -> None:
        """Forget a part: its response is complete and about to be recorded, or it has failed."""
        if (parts := self._open.get(run_id)) is not None:
            parts.pop(part, None)
            if not parts:
                del self._open[run_id]

    def written(self, run_id: str) -> list[AnyDelta]:
        """Return what is being written in a run, each part as one piece; pieces that follow continue it."""
        return [piece for part in self._open.get(run_id, ()) if (piece := part.written()) is not None]

    def is_followed(self, run_id: str) -> bool:
        return bool(self._listeners) or run_id in self._by_run

    def _pass(self, item: Event | AnyDelta) -> None:
        for listener in (*self._listeners, *self._by_run.get(item.run_id, ())):
            listener(item)


FOLLOWED_SECONDS = 5.0
"""How long a run counts as followed after a follower has asked."""
MOST_UNSENT = 4096
LONGEST_PIECE = 8 * 1024
"""The most characters of a piece of text in one signal."""


def followers_channel(run_id: str) -> str:
    """The channel on which followers ask the driver of a run; no run can have its name."""
    return f"{run_id}/followers"


class Relay:
    """The link of an engine to other processes. Without a transport it does nothing."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._transport: Transport | None = None
        self._driven: dict[str, _DrivenRun] = {}
        self._unsent: deque[tuple[str, LiveSignal]] = deque()
        self._has_unsent: asyncio.Event | None = None
        self.dropped = 0

    @property
    def traffic(self) -> Traffic | None:
        """What has gone to and come from other processes, or was dropped on the way; `None` without a transport."""
        if self._transport is None:
            return None
        carried = self._transport.traffic
        return replace(carried, dropped=carried.dropped + self.dropped)

    @contextmanager
    def over(self, transport: Transport | None) -> Generator[None]:
        """Use a transport within this block, in which `send_all` runs."""
        import asyncio  # a program that imports the engine may never run it

        self._transport, self._has_unsent = transport, asyncio.Event() if transport is not None else None
        try:
            yield
        finally:
            for run_id in list(self._driven):
                self.release(run_id)
            self._transport = self._has_unsent = None
            self._unsent.clear()

    def drive(self, run_id: str, last_durable: Callable[[], int]) -> None:
        """Answer the followers of a run from now on."""
        if self._transport is not None:
            run = _DrivenRun(self, self._bus, run_id, last_durable)
            run.unregister = self._transport.register(followers_channel(run_id), run.hear)
            self._driven[run_id] = run

    def release(self, run_id: str) -> None:
        """Send nothing more of a run, which is not driven here any more."""
        if (run := self._driven.pop(run_id, None)) is not None:
            run.unregister()
            run.end()

    def hear(self, run_id: str, handler: SignalHandler) -> Callable[[], None] | None:
        """Call a handler with the signals of a run, and return what removes it; `None` without a transport."""
        return self._transport.register(run_id, handler) if self._transport is not None else None

    def offer(self, channel: str, signal: LiveSignal) -> None:
        """Send a signal soon; it is dropped if too many wait."""
        if self._has_unsent is None or len(self._unsent) >= MOST_UNSENT:
            self.dropped += 1
            return
        self._unsent.append((channel, signal))
        self._has_unsent.set()

    async def send_all(self) -> None:
        """Send what is offered, until cancelled."""
        import logging

        while (has_unsent := self._has_unsent) is not None:
            await has_unsent.wait()
            has_unsent.clear()
            while self._unsent and self._transport is not None:
                channel, signal = self._unsent.popleft()
                try:
                    await self._transport.send(channel, signal)
                except Exception:
                    logging.getLogger("teamwright").exception("the transport of live signals failed")
                    self.dropped += 1


class _DrivenRun:
    """One run that is driven here, and until when it is followed from elsewhere."""

    def __init__(self, relay: Relay, bus: Bus, run_id: str, last_durable: Callable[[], int]) -> None:
        self._relay, self._bus, self._run_id, self._last_durable = relay, bus, run_id, last_durable
        self._until = 0.0
        self._number = self._sequence = 0
        self._listening: ExitStack | None = None
        self.unregister: Callable[[], None] = lambda: None

    async def hear(self, signal: LiveSignal) -> None:
        """Take the word of a follower."""
        if signal.type != "follow" or signal.run_id != self._run_id:
            return
        self._until = monotonic() + FOLLOWED_SECONDS
        if self._listening is None:
            self._listening, self._number = ExitStack(), self._last_durable()
            self._listening.enter_context(self._bus.listening(self._pass, self._run_id))
            self._send_written()
        elif signal.follower:
            self._send_written(signal.follower)

    def end(self) -> None:
        """Listen to the run no more, so that its models need not stream."""
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def _pass(self, item: Event | AnyDelta) -> None:
        if monotonic() > self._until:
            self.end()
        elif isinstance(item, Event):
            self._number = item.number
            self._relay.offer(self._run_id, LiveSignal(type="wake", run_id=self._run_id, number=item.number))
        else:
            self._send(item)

    def _send_written(self, follower: str = "") -> None:
        """Send what is written so far: to all, who have heard nothing of it, or to one that has just come."""
        for piece in self._bus.written(self._run_id):
            self._send(piece, follower)

    def _send(self, delta: AnyDelta, follower: str = "") -> None:
        for start in range(0, len(delta.text), LONGEST_PIECE):
            self._sequence += 1
            piece = delta.changed(
                text=delta.text[start : start + LONGEST_PIECE],
                offset=delta.offset + start,
                steps=delta.steps if start + LONGEST_PIECE >= len(delta.text) else (),
            )
            signal = LiveSignal.of_delta(piece, self._number, self._sequence, follower)
            self._relay.offer(self._run_id, signal)


ASK_SECONDS = 1.0
"""Seconds between two requests of a follower."""
MOST_HEARD, HEARD_CHARACTERS = 1024, 1024 * 1024
MOST_ENDED = 4096
"""How many turns are remembered whose last response is recorded."""
DISTRUST_SECONDS = 0.1
"""How long wake-ups are ignored after one that was wrong."""
ENDINGS = (AgentReturned, AgentCallFailed, AgentReplied, AgentFailed, AgentAbandoned)


class RemoteRun:
    """The place of one follower on the channel of a run, within a `with` block. `wake` is called at each signal."""

    def __init__(self, relay: Relay, run_id: str, wake: Callable[[], None]) -> None:
        self._relay, self._run_id, self._wake = relay, run_id, wake
        self._unregister: Callable[[], None] | None = None
        self._heard: deque[LiveSignal] = deque()
        self._characters = 0
        self._latest = self._claimed = 0
        self._asked_at = self._distrust_until = float("-inf")
        self._sequence = 0
        self._name = urandom(8).hex()
        self._has_asked = False
        self._parts: dict[str, dict[tuple[str, int], int]] = {}
        self._ended: OrderedDict[str, int] = OrderedDict()

    def __enter__(self) -> Self:
        self._unregister = self._relay.hear(self._run_id, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._unregister is not None:
            self._unregister()
            self._unregister = None

    @property
    def next_ask(self) -> float:
        """Seconds until `ask` is due; infinite without a transport."""
        return self._asked_at + ASK_SECONDS - monotonic() if self._unregister is not None else float("inf")

    def ask(self) -> None:
        """Ask the driver for signals, if it is time to."""
        if self.next_ask <= 0:
            self._asked_at = monotonic()
            name = "" if self._has_asked else self._name
            self._has_asked = True
            signal = LiveSignal(type="follow", run_id=self._run_id, follower=name)
            self._relay.offer(followers_channel(self._run_id), signal)

    async def _hear(self, signal: LiveSignal) -> None:
        if signal.run_id != self._run_id or signal.type == "follow":
            return
        self._latest = max(self._latest, signal.number)
        if signal.type == "text" and signal.sequence:
            if len(self._heard) >= MOST_HEARD or self._characters >= HEARD_CHARACTERS:
                return  # the gap in the sequence is noticed
            self._heard.append(signal)
            self._characters += len(signal.text)
        self._wake()

    def is_ahead(self, number: int) -> bool:
        """Whether the journal should have events after this one."""
        return self._latest > number and monotonic() >= self._distrust_until

    def begin_read(self) -> None:
        """Say that the journal is about to be read."""
        self._claimed, self._latest = self._latest, 0

    def end_read(self, number: int) -> None:
        """Say that the journal was read up to an event. Signals that had claimed more were wrong."""
        if self._claimed > number:
            self._distrust_until = monotonic() + DISTRUST_SECONDS
            while self._heard and number < self._heard[0].number <= self._claimed:
                self._take()
                self._lose()

    def note(self, event: Event) -> None:
        """Take an event of the run: it replaces the pieces of its turn."""
        if isinstance(event.fact, ENDINGS):
            for key in (event.scope, event.key):
                self._parts.pop(key, None)
                self._ended[key] = event.number
                self._ended.move_to_end(key)
            while len(self._ended) > MOST_ENDED:
                self._ended.popitem(last=False)

    def deltas(self, number: int) -> Iterator[AnyDelta]:
        """Yield the pieces that belong before the next event, where events up to `number` are known."""
        while self._heard and self._heard[0].number <= number:
            signal = self._take()
            if signal.sequence != self._sequence + 1 and self._sequence:
                self._lose()
            self._sequence = signal.sequence
            if signal.follower not in ("", self._name):
                continue
            if signal.number >= self._ended.get(signal.key, 0) and self._continues(signal):
                yield signal.to_delta()

    def _continues(self, signal: LiveSignal) -> bool:
        """Whether a piece begins its part, or follows the one before."""
        parts, part = self._parts.setdefault(signal.key, {}), (signal.part, signal.call)
        attempt = parts.get(part)
        if attempt is not None and signal.attempt < attempt:
            return False
        if signal.offset and signal.attempt != attempt:
            return False
        parts[part] = signal.attempt
        return True

    def _lose(self) -> None:
        """Pass on no part that has begun: pieces of it were lost."""
        self._parts.clear()

    def _take(self) -> LiveSignal:
        signal = self._heard.popleft()
        self._characters -= len(signal.text)
        return signal
