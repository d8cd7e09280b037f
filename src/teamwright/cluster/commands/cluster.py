"""`teamwright cluster`: `status` of workers, queues, open runs and models; `queue` for limits; and `schedules`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import (
    Json,
    Out,
    check_out,
    one_line,
    redirect_prints,
    say,
    write_json,
    write_result,
)
from teamwright.cluster.commands.budget import budget
from teamwright.cluster.wing import WING

if TYPE_CHECKING:
    from teamwright.cluster.queue_database import QueueLimits
    from teamwright.cluster.status import ClusterStatus
    from teamwright.journal.postgres.cluster_tables import PostgresSchedules, ScheduleRow
    from teamwright.journal.postgres.rate_limits import ModelPace

WATCH_SECONDS = 2.0
MOST_SET_ASIDE = 20
app = typer.Typer(
    help="Show and limit the queues and workers of many machines.", no_args_is_help=True, rich_markup_mode=None
)


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

    Example:
      teamwright cluster queue nightly --at-once 8 --per-minute 30
    """
    import anyio

    with WING.needed("A queue with workers"):
        from teamwright.cluster.queue_database import QueueLimits, is_branch_queue
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
    from teamwright.cluster.queue_client import QueueClient
    from teamwright.cluster.queue_database import QueueLimits
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


def schedules(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The schedule; without it, all are shown.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove it; runs that it has started go on.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Show the schedules that `submit --every` has made, with their next and last runs, or remove one.

    Examples:
      teamwright cluster schedules
      teamwright cluster schedules report --remove
    """
    from teamwright.errors import UnknownName, UsageError

    check_out(out)
    if remove and name is None:
        raise UsageError("Which schedule? Give its name before --remove.")
    found: list[ScheduleRow] = []

    async def work(schedules: PostgresSchedules) -> None:
        found.extend(await schedules.list())
        if name is not None and name not in {one.name for one in found}:
            raise UnknownName("schedule", name, [one.name for one in found])
        if remove and name is not None:
            await schedules.remove(name)

    _with_schedules(work)
    from teamwright.cluster.status import schedule_json

    shown = [one for one in found if name in (None, one.name)]
    if json:
        write_json([schedule_json(one) for one in shown], out)
    elif remove:
        say(f"removed the schedule {name!r}")
    else:
        none = 'There are no schedules; make one with  teamwright submit MANIFEST "…" --every CRON'
        write_result("\n".join(map(_schedule_line, shown)) or none, out)
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
    from teamwright.cluster.status import schedule_json

    last = f", last {one.last_run}" if one.last_run else ""
    following = schedule_json(one)["next"]
    return f"{one.name}: {one.cron!r} in {one.zone}, next {following}, in the queue {one.queue!r}{last}"


def status(
    follow: Annotated[bool, typer.Option("--follow", help="Show it again every two seconds, until Ctrl-C.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Show the workers, the queues, the age of the oldest run that waits, and how fast models are called.

    It reads the database alone, so it needs no worker. The journal must be in Postgres.

    Example:
      teamwright cluster status --follow
    """
    import anyio

    check_out(out)

    async def show() -> int:
        with WING.needed("A queue with workers"):
            from teamwright.cluster.queue_client import QueueClient
            from teamwright.cluster.status import cluster_journal, read_set_aside, read_status
        journal = cluster_journal()
        client = QueueClient(journal.address)
        await journal.open()
        try:
            await client.open()
            while True:
                found = await read_status(journal, client)
                if found.parked:
                    found = replace(found, set_aside=await read_set_aside(client))
                if json:
                    write_json(found.to_json(), out)
                else:
                    write_result("\n".join(_lines(found)), out)
                if not follow:
                    return 0
                await anyio.sleep(WATCH_SECONDS)
        finally:
            await client.close()
            await journal.close()

    with redirect_prints():
        return anyio.run(show)


def _lines(found: ClusterStatus) -> Iterator[str]:
    from teamwright.cli.terminal.output import columns
    from teamwright.cluster.queue_database import is_branch_queue
    from teamwright.values.text.display import NOTHING, count_text, seconds_text

    waiting = "" if found.oldest is None else f", the oldest waits for {seconds_text(found.oldest)}"
    alive = sum(one.state != "lost" for one in found.workers)
    yield f"{count_text(alive, 'worker')}, {count_text(found.open_runs, 'open run')}{waiting}"
    if found.workers:
        yield ""
        heads = ("WORKER", "QUEUE", "STATE", "RUNS", "FINISHED", "RUNNING", "VERSION")
        rows = [
            (
                one_line(one.id),
                one_line(one.queue),
                one.state if one.state != "lost" else f"lost {seconds_text(one.seen)} ago",
                f"{len(one.driving)} of {one.at_once}",
                str(one.finished),
                seconds_text(one.seconds),
                one_line(one.version),
            )
            for one in found.workers
        ]
        yield columns([heads, *rows])
    if queues := [one for one in found.queues if not (is_branch_queue(one.name) and one.is_idle)]:
        yield ""
        heads = ("QUEUE", "QUEUED", "DRIVEN", "OLDEST", "LIMITS")
        rows = [
            (
                one_line(one.name),
                str(one.queued),
                str(one.claimed),
                NOTHING if one.oldest is None else seconds_text(one.oldest),
                _limits(one.at_once, one.per_minute),
            )
            for one in queues
        ]
        yield columns([heads, *rows])
    if found.parked:
        yield ""
        yield f"{count_text(found.parked, 'run')} waiting for a person, or a worker with what they need: see runs list"
        yield from (f"  {one_line(one.run_id)} {one_line(one.reason)}" for one in found.set_aside[:MOST_SET_ASIDE])
        if len(found.set_aside) > MOST_SET_ASIDE:
            yield f"  and {len(found.set_aside) - MOST_SET_ASIDE} more"
    if found.models:
        yield ""
        heads = ("MODEL", "IN FLIGHT", "WAITING", "PROCESSES", "LIMITS")
        rows = [
            (one_line(one.name), str(one.in_flight), str(one.waiting), str(one.processes), _pace(one))
            for one in found.models
        ]
        yield columns([heads, *rows])


def _limits(at_once: int | None, per_minute: int | None) -> str:
    parts = [] if at_once is None else [f"{at_once} at once"]
    return ", ".join([*parts, *([] if per_minute is None else [f"{per_minute} started in a minute"])]) or "none"


def _pace(one: ModelPace) -> str:
    from teamwright.values.text.display import number_text, seconds_text

    parts = [
        *([] if one.at_once is None else [f"{one.at_once} at once"]),
        *([] if one.requests_per_minute is None else [f"{number_text(one.requests_per_minute)} requests a minute"]),
        *([] if one.tokens_per_minute is None else [f"{number_text(one.tokens_per_minute)} tokens a minute"]),
        *([f"asked to wait {seconds_text(one.cooldown)}"] if one.cooldown else []),
    ]
    return ", ".join(parts) or "none"


@app.callback()
def cluster() -> None:
    """Show and limit the queues and workers of many machines."""


app.command("status")(status)
app.command("queue")(queue)
app.command("budget")(budget)
app.command()(schedules)
