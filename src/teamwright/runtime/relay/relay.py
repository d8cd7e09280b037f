"""Sends what happens in the runs that are driven here to followers in other processes, while there are any.

A follower asks for it every second. Nothing is sent for a run that has no follower, and no run waits for the transport.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from teamwright.runtime.bus import Bus
from teamwright.transports.protocol import LiveSignal, SignalHandler, Traffic, Transport
from teamwright.values.events.event import AnyDelta, Event

if TYPE_CHECKING:
    import asyncio

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
            piece = delta.changed(text=delta.text[start : start + LONGEST_PIECE], offset=delta.offset + start)
            signal = LiveSignal.of_delta(piece, self._number, self._sequence, follower)
            self._relay.offer(self._run_id, signal)
