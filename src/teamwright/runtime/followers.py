"""Follows a run, read only: its events without a gap, and pieces of replies as they are written."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import anyio

from teamwright.journal.protocol import Journal
from teamwright.runtime.event_publisher import Bus, Relay, RemoteRun
from teamwright.runtime.live_runs import NOTIFIED_INTERVAL, POLL_INTERVAL, LiveRuns
from teamwright.runtime.recorded.reader import run_not_found
from teamwright.values.events.event import AnyDelta, Delta, Event

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
