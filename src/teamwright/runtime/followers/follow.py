"""Follows a run: yields its recorded events, then new ones, without a gap. Read only."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import anyio

from teamwright.journal.protocol import Journal
from teamwright.runtime.bus import Bus
from teamwright.runtime.deleted_run import run_not_found
from teamwright.runtime.live_runs import POLL_INTERVAL, LiveRuns
from teamwright.values.events.event import AnyDelta, Delta, Event

if TYPE_CHECKING:
    import asyncio


async def follow(
    journal: Journal, bus: Bus, live: LiveRuns, run_id: str, after: int = 0, *, parts: bool = False
) -> AsyncGenerator[Event | AnyDelta]:
    """Yield the run's events from the one after `after`, until the run ends, or has no driver and is not
    queued for one; raises `RunNotFound` if there is no such run.

    Events of a run that is driven here come from the bus, with pieces of replies and, with `parts`, of thinking and of
    the arguments of tool calls; those of other runs come from the journal.
    """
    import asyncio  # a program that imports the engine may never run it

    first = after
    present: deque[Event | AnyDelta] = deque()
    arrived = asyncio.Event()

    def listen(item: Event | AnyDelta) -> None:
        if item.run_id == run_id and (parts or isinstance(item, Event | Delta)):
            present.append(item)
            arrived.set()

    with bus.listening(listen), live.watching(arrived.set):
        while True:
            for event in await journal.read(run_id, after):
                after = event.number
                yield event
                if event.kind == "run.ended":
                    return
            if run_id not in live and not await journal.is_driven(run_id):
                if await journal.read(run_id, after, 1):
                    continue
                if (found := await journal.find(run_id)) is not None and found.status == "queued":
                    await anyio.sleep(POLL_INTERVAL)
                    continue
                if after == first and not await journal.read(run_id, limit=1):
                    raise await run_not_found(journal, run_id)
                return
            async for item in _from_bus(present, arrived, live, run_id, after):
                yield item
                if isinstance(item, Event):
                    after = item.number
                    if item.kind == "run.ended":
                        return
            if run_id not in live:
                await anyio.sleep(POLL_INTERVAL)


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
