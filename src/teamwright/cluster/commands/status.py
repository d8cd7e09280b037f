"""`teamwright cluster`, and `cluster status`: the workers, queues, open runs and models of many machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, cast

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, one_line, redirect_prints, write_json, write_result
from teamwright.cluster.commands.budget import budget
from teamwright.cluster.commands.queue import queue, schedules
from teamwright.cluster.wing import WING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.cluster.status import ClusterStatus
    from teamwright.journal.postgres.paces import ModelPace


WATCH_SECONDS = 2.0
MOST_SET_ASIDE = 20


def status(
    follow: Annotated[bool, typer.Option("--follow", help="Show it again every two seconds, until Ctrl-C.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Show the workers, the queues, the age of the oldest run that waits, and how fast models are called.

    It reads the database alone, so it needs no worker. The journal must be in Postgres.
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
                    write_json(_fields(found), out)
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


def _fields(found: ClusterStatus) -> dict[str, JsonValue]:
    fields = cast("dict[str, JsonValue]", asdict(found))
    models = [cast("JsonValue", one._asdict()) for one in found.models]
    return {"open_runs": found.open_runs, "oldest": found.oldest, **fields, "models": models}


def _lines(found: ClusterStatus) -> Iterator[str]:
    from teamwright.cli.terminal.output import columns
    from teamwright.cluster.queue_entries import is_branch_queue
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


app = typer.Typer(
    help="Show and limit the queues and workers of many machines.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def cluster() -> None:
    """Show and limit the queues and workers of many machines."""


app.command("status")(status)
app.command("queue")(queue)
app.command("budget")(budget)
app.add_typer(schedules, name="schedules")
