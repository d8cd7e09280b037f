"""What clients follow: the events of a run with their texts, and the pieces of replies that are being written.

A client names the last event that it has seen, and gets the rest without a gap or a duplicate: recorded events first,
then new ones. A run never waits for a client: what can't be delivered is dropped with the client, which comes back at
its number.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import ObjectReceiveStream
from pydantic import JsonValue

from teamwright.values.events.event import AnyDelta, Event

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine

Item = dict[str, JsonValue]
BACKLOG = 4096
"""How many items a client may lag behind before it is dropped."""


class TooSlow(Exception):
    """A client takes less than arrives; `number` is the last event that it got."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"the client is too slow; come back after event {number}")


@asynccontextmanager
async def run_feed(
    engine: Engine, run_id: str, after: int = 0, *, deltas: bool = True, backlog: int = BACKLOG
) -> AsyncGenerator[AsyncIterator[Item]]:
    """Open the feed of a run after an event. Its iteration raises `TooSlow` where the client lags too far behind."""
    sender, receiver = anyio.create_memory_object_stream[Event | AnyDelta](backlog)
    feed = _Feed(engine, receiver, after)

    async def pump() -> None:
        with sender:
            async for item in engine.runs.follow(run_id, after, parts=deltas):
                if not deltas and not isinstance(item, Event):
                    continue
                try:
                    sender.send_nowait(item)
                except anyio.WouldBlock:
                    feed.is_overflown = True
                    return

    async with anyio.create_task_group() as tasks:
        with receiver:
            tasks.start_soon(pump)
            yield feed
        tasks.cancel_scope.cancel()


class _Feed:
    """Reads texts when a client takes an item, so that a backlog holds events and not their texts."""

    def __init__(self, engine: Engine, receiver: ObjectReceiveStream[Event | AnyDelta], after: int) -> None:
        self._engine, self._receiver, self._number = engine, receiver, after
        self.is_overflown = False

    def __aiter__(self) -> AsyncIterator[Item]:
        return self

    async def __anext__(self) -> Item:
        try:
            item = await self._receiver.receive()
        except anyio.EndOfStream:
            if self.is_overflown:
                raise TooSlow(self._number) from None
            raise StopAsyncIteration from None
        if isinstance(item, Event):
            self._number = item.number
        return await item_of(self._engine, item)


async def item_of(engine: Engine, item: Event | AnyDelta) -> Item:
    """Return an event with its texts, or a piece of a reply, as JSON."""
    if not isinstance(item, Event):
        return {"kind": item.kind, **item.to_json()}
    texts = await engine.texts(item)
    return {**item.to_json(), "texts": texts} if texts else item.to_json()
