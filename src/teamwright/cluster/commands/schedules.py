"""`teamwright cluster schedules`: lists and removes the schedules that `submit --every` makes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, redirect_prints, say, write_json, write_result
from teamwright.cluster.wing import WING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.journal.postgres.stores import PostgresSchedules, ScheduleRow

app = typer.Typer(help="List and remove schedules of runs.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
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
        write_result("\n".join(map(_line, found)) or none, out)
    return 0


@app.command()
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


def _line(one: ScheduleRow) -> str:
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
