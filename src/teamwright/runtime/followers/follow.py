"""Follows a run: yields its recorded events, then new ones, without a gap. Read only."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator

import anyio

from teamwright.journal.protocol import Journal
from teamwright.runtime.bus import Bus
from teamwright.runtime.deleted_run import run_not_found
from teamwright.runtime.live_runs import POLL_INTERVAL, LiveRuns
from teamwright.values.events.event import AnyDelta, Event


async def follow(
    journal: Journal, bus: Bus, live: LiveRuns, run_id: str, after: int = 0
) -> AsyncGenerator[Event | AnyDelta]:
    """Yield the run's events from the one after `after`, until the run ends or has no driver; raises `RunNotFound`
    if there is no such run.

    Events of a run that is driven here come from the bus, with pieces of replies; those of other runs from the journal.
    """
    first = after
    present: deque[Event | AnyDelta] = deque()
    arrived = anyio.Event()

    def listen(item: Event | AnyDelta) -> None:
        nonlocal arrived
        if item.run_id == run_id:
            present.append(item)
            arrived.set()

    with bus.listening(listen):
        while True:
            for event in await journal.read(run_id, after):
                after = event.number
                yield event
                if event.kind == "run.ended":
                    return
            if run_id not in live and not await journal.is_driven(run_id):
                if await journal.read(run_id, after, 1):
                    continue
                if after == first and not await journal.read(run_id, limit=1):
                    raise await run_not_found(journal, run_id)
                return
            while run_id in live and not present:
                arrived = anyio.Event()
                with anyio.move_on_after(POLL_INTERVAL):
                    await arrived.wait()
            while present:
                item = present.popleft()
                if not isinstance(item, Event):
                    yield item
                elif item.number == after + 1:
                    after = item.number
                    yield item
                    if item.kind == "run.ended":
                        return
            if run_id not in live:
                await anyio.sleep(POLL_INTERVAL)
