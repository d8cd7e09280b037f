"""The contract of a transport, which carries wake-ups and live text between those who watch a run. Never the record.

What counts is in the journal, and a reader that misses a signal finds it there. So an unknown channel drops what it is
sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from msgspec import Meta
from msgspec.structs import asdict

from teamwright.values.events.event import AnyDelta, ArgumentsDelta, Delta, OutputForm, ThinkingDelta
from teamwright.values.models import Record

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
