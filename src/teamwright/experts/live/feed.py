"""Sends what happens in a run to a transport: a wake-up for each event, and the text that members are writing."""

from __future__ import annotations

from teamwright.runtime.runs import Runs
from teamwright.runtime.transport import LiveSignal, Transport
from teamwright.values.events.event import Event


async def feed_transport(runs: Runs, run_id: str, transport: Transport, *, after: int = 0) -> int:
    """Send the signals of a run to the channel of its id until the run stops; returns the number of its last event."""
    number = after
    async for item in runs.follow(run_id, after):
        if isinstance(item, Event):
            number = item.number
            await transport.send(run_id, LiveSignal(type="wake", run_id=run_id, number=number))
        else:
            await transport.send(run_id, LiveSignal.of_delta(item, number))
    return number
