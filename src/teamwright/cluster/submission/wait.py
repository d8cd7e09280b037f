"""Records that a run waits: in its queue, for any worker or for one that has what it needs, or for a person.

Everyone can read it.
"""

from __future__ import annotations

import time

from teamwright.cluster.submission.team_loader import Lacks
from teamwright.journal.protocol import Batch, Journal, commit
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded, RunPaused, RunQueued


async def record_wait(journal: Journal, run_id: str, queue: str, lacks: Lacks | None = None) -> None:
    """Record for what a run waits, unless its last event says so; raises `RunIsLive` if another process drives it."""
    async with journal.drive(run_id):
        events = await journal.read(run_id)
        last, fact = events[-1], RunQueued(queue=queue, waits_for=() if lacks is None else lacks.reasons)
        if isinstance(last.fact, RunQueued) and lacks is None:
            fact = fact.changed(starts=last.fact.starts)
        if last.fact != fact and not any(isinstance(one.fact, RunEnded) for one in events):
            await _record(journal, last, fact)


async def record_pause(journal: Journal, run_id: str, why: str) -> None:
    """Record why a run is paused until it is resumed by hand; raises `RunIsLive` if another process drives it."""
    async with journal.drive(run_id):
        events = await journal.read(run_id)
        if events and not any(isinstance(one.fact, RunEnded) for one in events):
            await _record(journal, events[-1], RunPaused(stop_reason="pause", why=why))


async def _record(journal: Journal, last: Event, fact: RunPaused | RunQueued) -> None:
    event = Event(last.run_id, last.number + 1, max(time.time(), last.time), "", "", fact)
    await commit(journal, Batch([event], {}))
