"""Queues for commands on runs: `runs resume --submit` gives a run back to its queue, `runs cancel` takes it out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.terminal.output import say, write_json, write_result
from teamwright.cluster.wing import WING

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine


async def resubmit_run(engine: Engine, run_id: str, *, quiet: bool, json: bool, out: Path | None) -> int:
    """Put a run back into its queue, and print its id like `submit`."""
    with WING.needed("A queue with workers"):
        from teamwright.cluster.queue_client import QueueClient
        from teamwright.cluster.status import cluster_journal
        from teamwright.cluster.submission import resubmit

    client = QueueClient(cluster_journal().address)
    await client.open()
    try:
        queue = await resubmit(engine.journal, client, run_id)
    finally:
        await client.close()
    if json:
        write_json({"run_id": run_id, "status": "queued", "queue": queue}, out)
        return 0
    write_result(run_id, out)
    if not quiet:
        say(f"in the queue {queue!r}; follow it with: teamwright runs tail {run_id}")
    return 0


async def leave_queue() -> None:
    """Delete the entries of runs that were cancelled while they waited; where that fails, a worker does it later."""
    from teamwright.errors import JournalError, MissingExtra
    from teamwright.journal.location import database_url

    if database_url() is None:  # a copy in a file has no queue
        return
    with suppress(JournalError, MissingExtra), WING.needed("A queue with workers"):
        from teamwright.cluster.queue_client import QueueClient
        from teamwright.cluster.status import cluster_journal

        client = QueueClient(cluster_journal().address)
        try:
            await client.open()
            await client.delete_ended()
        finally:
            await client.close()
