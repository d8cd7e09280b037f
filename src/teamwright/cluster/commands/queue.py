"""`teamwright cluster queue` and `cluster schedules`: the limits of queues, and the schedules that fill them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, redirect_prints, say, write_json, write_result
from teamwright.cluster.wing import WING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.cluster.queue_entries import QueueLimits
    from teamwright.journal.postgres.stores import PostgresSchedules, ScheduleRow


def queue(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The queue; without it, all are shown.")] = None,
    at_once: Annotated[
        int | None, typer.Option("--at-once", min=1, help="The most runs of the queue that are driven at a time.")
    ] = None,
    per_minute: Annotated[
        int | None, typer.Option("--per-minute", min=1, help="The most runs of the queue that start in a minute.")
    ] = None,
    remove_limits: Annotated[bool, typer.Option("--remove", help="Remove both limits.")] = False,
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
    changes = remove_limits or at_once is not None or per_minute is not None
    if changes and name is None:
        raise UsageError("Which queue? Give its name before the limits.")
    if remove_limits and (at_once is not None or per_minute is not None):
        raise UsageError("--remove removes the limits that --at-once and --per-minute set; use one of them.")
    change = QueueLimits(name, at_once, per_minute) if changes and name is not None else None
    with redirect_prints():
        found = anyio.run(_queues, change, remove_limits)
    limited = [one for one in found if not is_branch_queue(one.name) or one.at_once or one.per_minute]
    shown = limited if name is None else [one for one in found if one.name == name]
    if not shown and name is not None:
        raise UsageError(f"There is no queue {name!r}; the first run or worker of a queue makes it.")
    if json:
        write_json([{"name": one.name, "at_once": one.at_once, "per_minute": one.per_minute} for one in shown], out)
    else:
        write_result("\n".join(map(_line, shown)) or "There are no queues yet.", out)
    return 0


async def _queues(change: QueueLimits | None, remove_limits: bool) -> list[QueueLimits]:
    """Change the limits of one queue, where wanted, and return all queues."""
    from teamwright.cluster.queue_client import QueueClient
    from teamwright.cluster.queue_entries import QueueLimits
    from teamwright.cluster.status import cluster_journal

    client = QueueClient(cluster_journal().address)
    await client.open()
    try:
        if change is not None:
            known = {one.name: one for one in await client.queues.list()}
            before = QueueLimits(change.name) if remove_limits else known.get(change.name, QueueLimits(change.name))
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


schedules = typer.Typer(help="List and remove schedules of runs.", rich_markup_mode=None)


@schedules.callback(invoke_without_command=True)
def list_schedules(context: typer.Context, json: Json = False, out: Out = None) -> int:
    """List the schedules that `submit --every` has made, with their next and last runs."""
    if context.invoked_subcommand is not None:
        return 0
    check_out(out)
    found: list[ScheduleRow] = []

    async def work(schedules: PostgresSchedules) -> None:
        found.extend(await schedules.list())

    _with_schedules(work)
    if json:
        write_json([_to_json(one) for one in found], out)
    else:
        none = 'There are no schedules; make one with  teamwright submit MANIFEST "…" --every CRON'
        write_result("\n".join(map(_schedule_line, found)) or none, out)
    return 0


@schedules.command()
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="The schedule.")]) -> int:
    """Remove a schedule. Runs that it has started go on."""
    from teamwright.errors import UnknownName

    async def work(schedules: PostgresSchedules) -> None:
        if not await schedules.remove(name):
            raise UnknownName("schedule", name, [one.name for one in await schedules.list()])

    _with_schedules(work)
    say(f"removed the schedule {name!r}")
    return 0


def _with_schedules(work: Callable[[PostgresSchedules], Awaitable[None]]) -> None:
    import anyio

    with WING.needed("A queue with workers"):
        from teamwright.cluster.status import cluster_journal

    async def opened() -> None:
        journal = cluster_journal()
        await journal.open()  # creates the tables where needed
        try:
            await work(journal.cluster.schedules)
        finally:
            await journal.close()

    with redirect_prints():
        anyio.run(opened)


def _schedule_line(one: ScheduleRow) -> str:
    last = f", last {one.last_run}" if one.last_run else ""
    return f"{one.name}: {one.cron!r} in {one.zone}, next {_time(one.next)}, in the queue {one.queue!r}{last}"


def _to_json(one: ScheduleRow) -> dict[str, JsonValue]:
    return {
        "name": one.name,
        "cron": one.cron,
        "time_zone": one.zone,
        "queue": one.queue,
        "priority": one.priority,
        "next": _time(one.next),
        "last_run": one.last_run or None,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
