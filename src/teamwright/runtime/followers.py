"""Follows a run, read only: its events without a gap, pieces of replies as they are written, and structured output
while it grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from teamwright.history.recorded_asks import Texts
from teamwright.journal.protocol import Journal
from teamwright.runtime.event_publisher import Bus, Relay, RemoteRun
from teamwright.runtime.recorded.reader import run_not_found
from teamwright.runtime.run_control import NOTIFIED_INTERVAL, POLL_INTERVAL, LiveRuns
from teamwright.values.events.agent import AgentAsked, AgentReplied
from teamwright.values.events.event import WRAPPED, AnyDelta, Delta, Event, ThinkingDelta
from teamwright.values.typed_data import PartialReader, parse_partial
from teamwright.values.value import JsonValue

if TYPE_CHECKING:
    import asyncio


async def follow(
    journal: Journal, bus: Bus, live: LiveRuns, relay: Relay, run_id: str, after: int = 0, *, parts: bool = False
) -> AsyncGenerator[Event | AnyDelta]:
    """Yield the run's events from the one after `after`, until the run ends, or has no driver and is not
    queued for one; raises `RunNotFound` if there is no such run.

    Events of a run that is driven here come from the bus, with pieces of replies and, with `parts`, of thinking and of
    the arguments of tool calls; those of other runs come from the journal, and their pieces over the transport. What is
    being written when the follower joins comes as one piece, from its beginning.
    """
    import asyncio  # a program that imports the engine may never run it

    first, has_joined = after, False
    present: deque[Event | AnyDelta] = deque()
    arrived, changed = asyncio.Event(), asyncio.Event()

    def change() -> None:
        changed.set()
        arrived.set()

    def listen(item: Event | AnyDelta) -> None:
        if parts or isinstance(item, Event | Delta):
            present.append(item)
            change()

    with (
        bus.listening(listen, run_id),
        live.watching(change),
        journal.watching(run_id, change) as is_notified,
        RemoteRun(relay, run_id, arrived.set) as remote,
    ):
        interval = NOTIFIED_INTERVAL if is_notified else POLL_INTERVAL
        while True:
            changed.clear()
            remote.begin_read()
            for event in await journal.read(run_id, after):
                after = event.number
                remote.note(event)
                yield event
                if event.kind == "run.ended":
                    return
            remote.end_read(after)
            has_joined = has_joined or _join(present, bus.written(run_id), parts=parts)
            if run_id not in live and not await journal.is_driven(run_id):
                if await journal.read(run_id, after, 1):
                    continue
                if not await _is_queued(journal, run_id, seen=after > first):
                    return
            async for item in _from_bus(present, arrived, live, run_id, after):
                yield item
                if isinstance(item, Event):
                    after = item.number
                    remote.note(item)
                    if item.kind == "run.ended":
                        return
            if run_id not in live:
                async for delta in _from_elsewhere(remote, arrived, changed, after, interval):
                    if parts or isinstance(delta, Delta):
                        yield delta


def _join(present: deque[Event | AnyDelta], written: list[AnyDelta], *, parts: bool) -> bool:
    """Replace pieces that have arrived by what is written so far: they are within it, or their turn is over.

    Returns true: the follower has joined.
    """
    events = [one for one in present if isinstance(one, Event)]
    present.clear()
    present.extend((*events, *(one for one in written if parts or isinstance(one, Delta))))
    return True


async def _is_queued(journal: Journal, run_id: str, *, seen: bool) -> bool:
    """Whether a run without a driver will get one; raises `RunNotFound` if there is no such run."""
    found = await journal.find(run_id)
    if found is not None and found.status == "queued":
        return True
    if not seen and not await journal.read(run_id, limit=1):
        raise await run_not_found(journal, run_id)
    return False


async def _from_bus(
    present: deque[Event | AnyDelta], arrived: asyncio.Event, live: LiveRuns, run_id: str, after: int
) -> AsyncGenerator[Event | AnyDelta]:
    """Yield what arrives from the bus, until an event is missing or the run is no longer driven here."""
    while present or run_id in live:
        if not present:
            arrived.clear()
            await arrived.wait()
            continue
        item = present.popleft()
        if isinstance(item, Event):
            if item.number > after + 1:
                return
            if item.number <= after:
                continue
            after = item.number
        yield item


async def _from_elsewhere(
    remote: RemoteRun, arrived: asyncio.Event, changed: asyncio.Event, after: int, interval: float
) -> AsyncGenerator[AnyDelta]:
    """Yield pieces of replies from another process, until it is time to look into the journal."""
    until = anyio.current_time() + interval
    while True:
        remote.ask()
        for delta in remote.deltas(after):
            yield delta
        seconds = until - anyio.current_time()
        if changed.is_set() or remote.is_ahead(after) or seconds <= 0:
            return
        arrived.clear()
        with anyio.move_on_after(min(seconds, max(remote.next_ask, 0.0))):
            await arrived.wait()


T = TypeVar("T")


SHARE = 32
"""A text is parsed again when it has grown by this part of itself, so that all parses together take linear time."""


@dataclass(frozen=True, slots=True)
class PartialOutput(Generic[T]):
    """The structured output of one turn so far.

    `data` is the JSON that has arrived, in which the last text may be cut. `value` is the longest part of it that is
    valid as the type that was asked for, or `None`. The last one of a turn `is_final`, and its data is recorded.
    """

    member: str
    key: str
    data: JsonValue
    value: T | None = None
    is_final: bool = False


class OutputStream(Generic[T]):
    """Turns what a follower of a run sees into partial outputs, of one member or of all."""

    def __init__(
        self,
        texts: Callable[[Event], Awaitable[Texts]],
        output_type: type[T] | None = None,
        member: str | None = None,
    ) -> None:
        self._texts, self._member = texts, member
        self._reader = PartialReader(output_type) if output_type is not None else None
        self._members: dict[str, str] = {}
        self._writing: dict[str, _Written] = {}

    async def outputs(self, items: AsyncGenerator[Event | AnyDelta]) -> AsyncGenerator[PartialOutput[T]]:
        """Yield an output whenever it has grown, and once it is final."""
        async for item in items:
            found = await self._recorded(item) if isinstance(item, Event) else self._written(item)
            if found is not None:
                yield found

    def _written(self, delta: AnyDelta) -> PartialOutput[T] | None:
        if isinstance(delta, ThinkingDelta) or not delta.output or (self._member or delta.member) != delta.member:
            return None
        if delta.offset == 0:
            self._writing[delta.key] = _Written(wrapped=delta.output == "wrapped")
        if delta.key not in self._writing or not self._writing[delta.key].grow(delta.text):
            return None
        return self._output(delta.member, delta.key, self._writing[delta.key].data)

    async def _recorded(self, event: Event) -> PartialOutput[T] | None:
        match event.fact:
            case AgentAsked(member=member, member_kind=kind) if kind != "team" and self._member in (None, member):
                self._members[event.key] = member
            case AgentReplied(data=str()) if event.key in self._members:
                self._writing.pop(event.key, None)
                data = (await self._texts(event))["data"]
                return self._output(self._members[event.key], event.key, data, is_final=True)
            case _:
                pass
        return None

    def _output(self, member: str, key: str, data: JsonValue, *, is_final: bool = False) -> PartialOutput[T]:
        value = self._reader.read(data, is_final=is_final) if self._reader is not None else None
        return PartialOutput(member, key, data, value, is_final)


class _Written:
    """The text of one output so far."""

    __slots__ = ("_length", "_parsed", "_pieces", "_wrapped", "data")

    def __init__(self, *, wrapped: bool) -> None:
        self._wrapped, self._pieces = wrapped, list[str]()
        self._length = self._parsed = 0
        self.data: JsonValue = None

    def grow(self, piece: str) -> bool:
        """Add a piece; return whether the data has changed."""
        self._pieces.append(piece)
        self._length += len(piece)
        if self._length - self._parsed < self._length // SHARE:
            return False
        self._parsed, before = self._length, self.data
        self._pieces = ["".join(self._pieces)]
        data = parse_partial(self._pieces[0])
        if self._wrapped:
            data = data.get(WRAPPED) if isinstance(data, dict) else None
        self.data = data if data is not None else before
        return self.data != before
