"""What a follower hears of a run that another process drives: wake-ups, and pieces of replies in the right place.

A signal may be lost, late, or forged by anyone who may write to the transport. So a piece is passed on only after the
events before it, never after the event that replaces it, and never without all of its text before it: a secret is
known by its beginning. A follower asks for the text so far when it comes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from os import urandom
from time import monotonic
from typing import Self

from teamwright.runtime.relay.relay import Relay, followers_channel
from teamwright.transports.protocol import LiveSignal
from teamwright.values.events.agent import AgentAbandoned, AgentCallFailed, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.event import AnyDelta, Event

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
