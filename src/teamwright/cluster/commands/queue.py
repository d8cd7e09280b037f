"""`teamwright cluster queue`: shows the queues and sets their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, redirect_prints, write_json, write_result
from teamwright.cluster.wing import WING

if TYPE_CHECKING:
    from teamwright.cluster.queue_entries import QueueLimits


def queue(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The queue; without it, all are shown.")] = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", min=1, help="The most runs of the queue that are driven at a time.")
    ] = None,
    per_minute: Annotated[
        int | None, typer.Option("--per-minute", min=1, help="The most runs of the queue that start in a minute.")
    ] = None,
    unlimited: Annotated[bool, typer.Option("--unlimited", help="Remove both limits.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Show the queues with their limits, or set the limits of one, for all workers together.

    A limit that is not given stays as it is.
    """
    import anyio

    with WING.needed("A queue with workers"):
        from teamwright.cluster.queue_entries import QueueLimits, is_branch_queue
    from teamwright.errors import UsageError

    check_out(out)
    changes = unlimited or at_once is not None or per_minute is not None
    if changes and name is None:
        raise UsageError("Which queue? Give its name before the limits.")
    if unlimited and (at_once is not None or per_minute is not None):
        raise UsageError("--unlimited removes the limits that --at-once and --per-minute set; use one of them.")
    change = QueueLimits(name, at_once, per_minute) if changes and name is not None else None
    with redirect_prints():
        found = anyio.run(_queues, change, unlimited)
    limited = [one for one in found if not is_branch_queue(one.name) or one.at_once or one.per_minute]
    shown = limited if name is None else [one for one in found if one.name == name]
    if not shown and name is not None:
        raise UsageError(f"There is no queue {name!r}; the first run or worker of a queue makes it.")
    if json:
        write_json([{"name": one.name, "at_once": one.at_once, "per_minute": one.per_minute} for one in shown], out)
    else:
        write_result("\n".join(map(_line, shown)) or "There are no queues yet.", out)
    return 0


async def _queues(change: QueueLimits | None, unlimited: bool) -> list[QueueLimits]:
    """Change the limits of one queue, where wanted, and return all queues."""
    from teamwright.cluster.queue_client import QueueClient
    from teamwright.cluster.queue_entries import QueueLimits
    from teamwright.cluster.status import cluster_journal

    client = QueueClient(cluster_journal().address)
    await client.open()
    try:
        if change is not None:
            known = {one.name: one for one in await client.queues.list()}
            before = QueueLimits(change.name) if unlimited else known.get(change.name, QueueLimits(change.name))
            at_once = before.at_once if change.at_once is None else change.at_once
            per_minute = before.per_minute if change.per_minute is None else change.per_minute
            await client.queues.limit(QueueLimits(change.name, at_once, per_minute))
        return await client.queues.list()
    finally:
        await client.close()


def _line(one: QueueLimits) -> str:
    at_once = "any number" if one.at_once is None else str(one.at_once)
    per_minute = "" if one.per_minute is None else f", at most {one.per_minute} started in a minute"
    return f"{one.name}: {at_once} at once{per_minute}"
