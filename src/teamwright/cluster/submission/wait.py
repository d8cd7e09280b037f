"""Records that a run waits for a worker that has what it needs, so that everyone who looks at the run reads it."""

from __future__ import annotations

import time

from teamwright.cluster.submission.team_loader import Lacks
from teamwright.journal.commit import commit
from teamwright.journal.protocol import Batch, Journal
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded, RunQueued


async def record_wait(journal: Journal, run_id: str, queue: str, lacks: Lacks) -> None:
    """Record for what a run waits, unless its last event says so; raises `RunIsLive` if another process drives it."""
    async with journal.drive(run_id):
        last = (await journal.read(run_id))[-1]
        fact = RunQueued(queue=queue, waits_for=lacks.reasons)
        if last.fact != fact and not isinstance(last.fact, RunEnded):
            event = Event(run_id, last.number + 1, max(time.time(), last.time), "", "", fact)
            await commit(journal, Batch([event], {}))
