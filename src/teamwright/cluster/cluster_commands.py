"""`teamwright cluster`: `status` of workers, queues, open runs and models; limits; budgets; schedules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
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
from teamwright.cluster.wing import WING

if TYPE_CHECKING:
    from teamwright.cluster.queue_database import QueueLimits
    from teamwright.cluster.status import ClusterStatus
    from teamwright.journal.postgres.cluster_tables import PostgresSchedules, ScheduleRow
    from teamwright.journal.postgres.rate_limits import ModelPace
    from teamwright.journal.protocol import Journal
    from teamwright.journal.tenant_budgets import Budgets, Period, TenantBudget


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
    from teamwright.cluster.queue_client import opened_queue
    from teamwright.cluster.queue_database import QueueLimits
    from teamwright.cluster.status import cluster_journal

    async with opened_queue(cluster_journal().address) as client:
        if change is not None:
            known = {one.name: one for one in await client.queues.list()}
            before = QueueLimits(change.name) if remove_limits else known.get(change.name, QueueLimits(change.name))
            at_once = before.at_once if change.at_once is None else change.at_once
            per_minute = before.per_minute if change.per_minute is None else change.per_minute
            await client.queues.limit(QueueLimits(change.name, at_once, per_minute))
        return await client.queues.list()


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
            from teamwright.cluster.queue_client import opened_queue
            from teamwright.cluster.status import cluster_journal, read_set_aside, read_status
        journal = cluster_journal()
        await journal.open()
        try:
            async with opened_queue(journal.address) as client:
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


def budget(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A budget; without it, all are shown.")] = None,
    usd: Annotated[
        float | None,
        typer.Option("--max-usd", metavar="USD", help="The most that runs may spend in a period, in dollars."),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option("--max-tokens", metavar="N", min=0, help="The most tokens that runs may use in a period."),
    ] = None,
    per: Annotated[
        str | None, typer.Option("--per", metavar="PERIOD", help="The period: day, week, month or ever. In UTC.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the budget; open runs keep their limits.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Show what is spent, reserved and left of the budgets of tenants, or set one.

    A run names a budget with --budget, and reserves the most that its own limits let it spend. A bound that is not
    given does not exist.

    Example:
      teamwright cluster budget bakery --max-usd 50 --per day
    """
    check_out(out)
    period = _period_of(name, usd, tokens, per, remove)

    async def work(journal: Journal) -> int:
        from teamwright.runtime.budget.tenant_budgets import TenantBudgets

        budgets = _budgets_of(journal)
        if name is not None and remove:
            await _remove_budget(budgets, name)
            return 0
        if name is not None and period is not None:
            from teamwright.values.usage_and_prices import picodollars

            await budgets.put(name, None if usd is None else picodollars(usd), tokens, period)
        await TenantBudgets(journal).settle_ended()
        _write_budgets([one for one in await budgets.all() if name in {None, one.name}], name, json, out)
        return 0

    return with_journal(work)


def _period_of(name: str | None, usd: float | None, tokens: int | None, per: str | None, remove: bool) -> Period | None:
    """Return the period of a budget that is set, or `None` if budgets are only shown; raises `UsageError`."""
    from math import isfinite

    from teamwright.errors import UnknownName, UsageError
    from teamwright.journal.tenant_budgets import PERIODS
    from teamwright.values.names import check_name

    if name is not None:
        check_name("budget", name)
    changes = usd is not None or tokens is not None
    if (changes or remove or per is not None) and name is None:
        raise UsageError("Which budget? Give its name first.")
    if remove and (changes or per is not None):
        raise UsageError("--remove removes the budget; use it without --max-usd, --max-tokens and --per.")
    if changes != (per is not None):
        raise UsageError("A budget needs a bound and a period, as in  --max-usd 50 --per day.")
    if usd is not None and not (isfinite(usd) and usd >= 0):
        raise UsageError(f"The budget can't be {usd} dollars.")
    if per is not None and per not in PERIODS:
        raise UnknownName("period", per, PERIODS)
    return per


def _budgets_of(journal: Journal) -> Budgets:
    from teamwright.errors import UsageError

    if (budgets := journal.budgets) is None:
        raise UsageError("Only a journal in Postgres keeps budgets of tenants: set TEAMWRIGHT_JOURNAL to its URL.")
    return budgets


async def _remove_budget(budgets: Budgets, name: str) -> None:
    from teamwright.journal.tenant_budgets import unknown_budget

    if not await budgets.remove(name):
        raise unknown_budget(name)


def _write_budgets(shown: list[TenantBudget], name: str | None, json: bool, out: Out) -> None:
    from teamwright.journal.tenant_budgets import unknown_budget

    if not shown and name is not None:
        raise unknown_budget(name)
    if json:
        write_json([one.to_json() for one in shown], out)
    else:
        write_result("\n".join(map(_budget_lines, shown)) or "There are no budgets yet.", out)


def _budget_lines(one: TenantBudget) -> str:
    """A budget in words: a line for each bound."""
    from teamwright.journal.tenant_budgets import money_text, tokens_text

    when = "" if not one.until else f", until {one.until}"
    held = "" if not one.runs else f" by {one.runs} open {'run' if one.runs == 1 else 'runs'}"
    lines: list[str] = []
    for most, spent, reserved, left, text in (
        (one.usd, one.spent_usd, one.reserved_usd, one.left_usd, money_text),
        (one.tokens, one.spent_tokens, one.reserved_tokens, one.left_tokens, tokens_text),
    ):
        if most is not None and left is not None:
            period = "in all" if one.per == "ever" else f"per {one.per}"
            lines.append(
                f"{one.name}: {text(most)} {period}; {text(spent)} spent, {text(reserved)} reserved{held},"
                f" {text(max(0, left))} left{when}"
            )
    return "\n".join(lines)


@app.callback()
def cluster() -> None:
    """Show and limit the queues and workers of many machines."""


app.command("status")(status)
app.command("queue")(queue)
app.command("budget")(budget)
app.command()(schedules)
