"""Gives a run that was paused by hand back to the workers of its queue."""

from __future__ import annotations

from teamwright.cluster.queue.client import QueueClient
from teamwright.cluster.submission.wait import record_wait
from teamwright.errors import NotResumable
from teamwright.journal.protocol import Journal
from teamwright.values.results import FINAL


async def resubmit(journal: Journal, client: QueueClient, run_id: str) -> str:
    """Put a run that has no driver back into its queue, and return the name of the queue; both must be open.

    Raises `RunIsLive` if a process drives it, and `NotResumable` if it has ended or is in no queue.
    """
    entry, run = await client.find(run_id), await journal.find(run_id)
    if entry is None or run is None or run.status in FINAL:
        raise NotResumable(
            f"Run {run_id!r} is in no queue: it has ended, or it was never submitted. What is interrupted or paused"
            f" continues in this process with  teamwright runs resume {run_id}"
        )
    await record_wait(journal, run_id, entry.queue)
    if entry.state == "parked":
        await client.enqueue(entry)
    return entry.queue
