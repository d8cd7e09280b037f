"""Follows a queued run over the journal, from worker to worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from teamwright.runtime.engine import Engine
from teamwright.values.events.event import AnyDelta, Event
from teamwright.values.results import FINAL

POLL_SECONDS = 0.2


async def follow_queued(engine: Engine, run_id: str, after: int = 0) -> AsyncGenerator[Event | AnyDelta]:
    """Yield the events of a run until it has ended or is paused: while it is queued, and on each worker in turn.

    Where processes share a transport, pieces of replies come in between.
    """
    while True:
        async for item in engine.runs.follow(run_id, after, parts=True):
            if isinstance(item, Event):
                after = item.number
            yield item
        found = await engine.runs.find(run_id)
        if found is None or found.status in FINAL or found.status == "paused":
            return
        await asyncio.sleep(POLL_SECONDS)
