"""The contract of a transport, which carries wake-ups and live text between those who watch a run. Never the record.

What counts is in the journal, and a reader that misses a signal finds it there. So an unknown channel drops what it is
sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Literal, Protocol

from msgspec import Meta

from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Delta, OutputForm, ThinkingDelta
from teamwright.values.models import Record

MOST_QUEUED = 1024
"""How many signals wait for one listener; a sender waits while a queue is full."""

Count = Annotated[int, Meta(ge=0)]


class LiveSignal(Record, frozen=True, forbid_unknown_fields=False):
    """A wake-up, a piece of text, or the word of a follower.

    A `wake` says that the journal has an event with this `number`. A `text` is a piece of what a member is writing:
    `number` is the last event before it, `sequence` counts the pieces that its driver has sent, and the other fields
    are those of the delta. A `follow` asks the driver of a run for both, for some seconds.
    """

    type: Literal["wake", "text", "follow"]
    run_id: str
    number: Count = 0
    member: str = ""
    text: str = ""
    sequence: Count = 0
    part: Literal["text", "thinking", "arguments"] = "text"
    key: str = ""
    attempt: Count = 0
    offset: Count = 0
    output: OutputForm | None = None
    tool: str = ""
    call: Count = 0

    @classmethod
    def of_delta(cls, delta: AnyDelta, number: int, sequence: int = 0) -> LiveSignal:
        """Return the signal for a piece of a response."""
        is_call = isinstance(delta, ArgumentsDelta)
        return cls(
            type="text",
            run_id=delta.run_id,
            number=number,
            member=delta.member,
            text=delta.text,
            sequence=sequence,
            part="arguments" if is_call else "thinking" if isinstance(delta, ThinkingDelta) else "text",
            key=delta.key,
            attempt=delta.attempt,
            offset=delta.offset,
            output=delta.output,
            tool=delta.tool if is_call else "",
            call=delta.call if is_call else 0,
        )

    def to_delta(self) -> AnyDelta:
        """Return the piece of a response that a `text` carries."""
        if self.part == "arguments":
            return ArgumentsDelta(
                run_id=self.run_id,
                key=self.key,
                member=self.member,
                attempt=self.attempt,
                offset=self.offset,
                text=self.text,
                output=self.output,
                tool=self.tool,
                call=self.call,
            )
        return (Delta if self.part == "text" else ThinkingDelta)(
            run_id=self.run_id,
            key=self.key,
            member=self.member,
            attempt=self.attempt,
            offset=self.offset,
            text=self.text,
            output=self.output,
        )


SignalHandler = Callable[[LiveSignal], Awaitable[None]]


class Transport(Protocol):
    """Channels by name. Each listener and each handler of a channel receives all of its signals, in order."""

    async def send(self, channel: str, signal: LiveSignal) -> None:
        """Send a signal to everyone who listens now; waits while a queue is full. An unknown channel drops it."""
        ...

    def listen(self, channel: str) -> AsyncGenerator[LiveSignal]:
        """Yield the signals that are sent from now on, until the transport closes."""
        ...

    def register(self, channel: str, handler: SignalHandler) -> Callable[[], None]:
        """Call `handler` with each signal, within `send`; returns what removes it."""
        ...

    async def close(self) -> None:
        """Wake everyone who waits: listeners end, and senders return."""
        ...
