"""`teamwright submit` puts a run into a queue, from which any worker takes it; it imports the queue when it is called.

`runs resume --submit` gives a run back to its queue, and `runs cancel` takes it out.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from teamwright.cli.terminal.command_setup import ManifestArguments, require_task
from teamwright.cli.terminal.options import (
    AllowRoot,
    Attach,
    Events,
    Full,
    ManifestPath,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Model,
    Quiet,
    RunId,
    TaskFile,
    TaskText,
    TeamName,
    With,
    read_task,
    run_limits,
    seconds_of,
)
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result
from teamwright.cli.validate import start_checked
from teamwright.cluster.wing import WING
from teamwright.cluster.worker_command import QueueName
from teamwright.errors import UsageError
from teamwright.values.text.display import minute_text

if TYPE_CHECKING:
    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.cluster.submission import PreparedTeam
    from teamwright.journal.postgres.cluster_tables import PostgresSchedules
    from teamwright.journal.protocol import Batch
    from teamwright.runtime.engine import Engine
    from teamwright.values.limits import Limits


FARTHEST: Final = 100 * 366 * 86400.0
"""The seconds to the latest start that is taken."""


def delay_until(text: str, now: float) -> float:
    """Return the seconds from `now`, the time by the database's clock, until a start; raises `UsageError`.

    The text is a duration such as 10m, or an ISO time, local unless it has a zone.
    """
    start = parse_start(text)
    delay = start.timestamp() - now if isinstance(start, datetime) else start
    if delay < 0:
        raise UsageError(f"{text!r} has passed; without --after the run starts at once.")
    if delay > FARTHEST:
        raise UsageError(f"{text!r} is more than a hundred years away; write an earlier time to start after.")
    return delay


def parse_start(text: str) -> datetime | float:
    """Return a time, or the seconds of a duration; raises `UsageError` for anything else."""
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except ValueError:
        try:
            return seconds_of(text)
        except UsageError:
            raise UsageError(
                f"{text!r} is no time to start after; write a duration such as 90s, 10m, 2h or 1d, or a time such as"
                " 2026-05-31T07:00 or 2026-05-31T07:00+02:00."
            ) from None


Priority = Annotated[int, typer.Option("--priority", help="Runs with a higher number start first; 0 by default.")]
After = Annotated[
    str | None, typer.Option("--after", metavar="TIME", help="Start after a duration such as 10m, or at an ISO time.")
]
Every = Annotated[
    str | None,
    typer.Option(
        "--every",
        metavar="CRON [ZONE]",
        help='Start a run at each of these times, such as "0 7 * * mon-fri".',
    ),
]
ScheduleName = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The name of the schedule that --every makes.")
]
Budget = Annotated[
    str | None, typer.Option("--budget", metavar="NAME", help="The tenant's budget that the run draws on.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Follow the run, and print its answer like `run`.")]
Code = Annotated[
    Path | None, typer.Option("--code", metavar="DIR", help="The folder with the code that the manifest names.")
]


@dataclass(frozen=True, slots=True)
class StartTimes:
    """When a submitted run starts: after a time, or again and again on a schedule; at once if nothing is given."""

    after: str | None = None
    every: str | None = None
    schedule: str | None = None


@dataclass(frozen=True, slots=True)
class Submission:
    """The arguments of `teamwright submit`."""

    chosen: ManifestArguments
    run_id: str | None
    queue: str
    priority: int
    attach: tuple[str, ...]
    limits: Limits | None
    budget: str | None
    wait: bool
    code: Path | None
    times: StartTimes


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The queue in which a run waits, and when it starts there, in seconds since 1970, if not at once."""

    queue: str = ""
    starts: float | None = None

    def __str__(self) -> str:
        starts = "" if self.starts is None else f", starts at {minute_text(self.starts)}"
        return f"in the queue {self.queue!r}{starts}"


def submit(
    manifest: ManifestPath,
    task: TaskText = None,
    *,
    queue: QueueName = "default",
    priority: Priority = 0,
    after: After = None,
    every: Every = None,
    schedule: ScheduleName = None,
    wait: Wait = False,
    code: Code = None,
    file: TaskFile = None,
    team: TeamName = None,
    more: With = None,
    model: Model = None,
    run_id: RunId = None,
    attach: Attach = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    budget: Budget = None,
    events: Events = False,
    full: Full = False,
    quiet: Quiet = False,
    allow_root: AllowRoot = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Put a run into a queue, from which any worker takes it. Prints the run's id.

    The files that the manifest names travel with the run. Code does not: workers have it installed, or in a folder with
    the same content (--code). Environment variables are those of the worker. With --every, a schedule is made, and its
    name is printed; `cluster schedules` lists and removes schedules. The journal must be in Postgres. Every command on
    runs works on queued ones: list, show, tail, answer, cancel.

    Examples:
      teamwright submit team.yaml "Write the report." --queue nightly --wait
      teamwright submit team.yaml "Write the report." --every "0 7 * * mon-fri" --name report
    """
    check_out(out)
    chosen = ManifestArguments((manifest, *(more or ())), read_task(task, file), team, model, tuple(allow_root or ()))
    submission = Submission(
        chosen,
        run_id=run_id,
        queue=queue,
        priority=priority,
        attach=tuple(attach or ()),
        limits=run_limits(max_tokens, max_usd, max_calls, max_seconds),
        budget=budget,
        wait=wait,
        code=code,
        times=StartTimes(after, every, schedule),
    )
    _check_times(submission)
    return start_checked(chosen, run_id, partial(_submit, submission, _view_options(json, events, quiet, out, full)))


def _view_options(json: bool, events: bool, quiet: bool, out: Path | None, full: bool) -> ViewOptions:
    from teamwright.cli.foreground_run import ViewOptions

    return ViewOptions(json, events, quiet, out, no_input=True, full=full)


async def _submit(submission: Submission, shown: ViewOptions) -> int:
    with WING.needed("A queue with workers"):
        from teamwright.cluster.queue_client import opened_queue
        from teamwright.cluster.queue_database import check_own_queue, check_priority
        from teamwright.cluster.status import cluster_journal, has_worker
    from teamwright.cli.terminal.command_setup import extend_sys_path
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.recorded.identity import require_same_run

    check_own_queue(submission.queue)
    check_priority(submission.priority)
    extend_sys_path()
    journal = cluster_journal()
    async with Engine(journal) as engine:
        prepared, task = await _team_and_task(engine, submission)
        delay = starts = None
        if submission.times.after is not None:
            now = await journal.cluster.now()
            delay = delay_until(submission.times.after, now)
            starts = round(now + delay, 3)
        batch = await engine.enqueue(
            prepared.team,
            task,
            queue=submission.queue,
            run_id=submission.run_id,
            limits=submission.limits,
            attachments=submission.attach,
            budget=submission.budget,
            files=prepared.files,
            code=prepared.code,
            starts=starts,
        )
        if submission.times.every is not None:
            await _schedule(journal.cluster.schedules, submission, batch, prepared.team.name, shown)
            return 0
        async with opened_queue(journal.address) as client:
            is_new = await client.submit(batch, submission.queue, priority=submission.priority, delay=delay or 0.0)
        place = QueuePlace(submission.queue, starts)
        if not is_new:
            await require_same_run(journal, batch)
            say(f"run {batch.run_id} exists already; nothing new is submitted")
            place = await _place_of(engine, batch.run_id)
        elif not shown.quiet and not await has_worker(journal, place.queue):
            say(f"no worker of this queue runs now; start one with: teamwright worker --queue {place.queue}")
        if is_new and prepared.options and not shown.quiet:
            say(f"only workers with these options drive it: {' '.join(prepared.options)}")
        if submission.wait:
            return await _wait(engine, batch.run_id, place, shown)
        await _report_submitted(engine, batch.run_id, place, shown)
        return 0


async def _place_of(engine: Engine, run_id: str) -> QueuePlace:
    """Where a run that exists is, or was, queued; in no queue if it was never submitted."""
    from teamwright.values.events.run import RunQueued

    history = await engine.runs.history(run_id)
    facts = [event.fact for event in history.events if isinstance(event.fact, RunQueued)]
    return QueuePlace(facts[-1].queue, facts[-1].starts) if facts else QueuePlace()


async def _team_and_task(engine: Engine, submission: Submission) -> tuple[PreparedTeam, str]:
    """Load the team as workers will, and find the task: that of the arguments, or the manifest's query."""
    from teamwright.cluster.run_requirements import CodeFolder
    from teamwright.cluster.submission import prepare_team
    from teamwright.teams.builder import SCRIPTED

    code = None if submission.code is None else CodeFolder(submission.code)
    if code is not None and str(code.folder) not in sys.path:
        sys.path.append(str(code.folder))
    source, task = submission.chosen.source_and_task(submission.chosen.load())
    required = require_task(task)
    model = submission.chosen.model or ""
    allow = [Path(model.removeprefix(SCRIPTED))] if model.startswith(SCRIPTED) else []
    return prepare_team(source, engine.models, code=code, allow=allow), required


def _check_times(submission: Submission) -> None:
    from teamwright.errors import UsageError

    times = submission.times
    if times.after is not None:
        parse_start(times.after)
    if times.every is None:
        if times.schedule is not None:
            raise UsageError("--name names the schedule that --every makes, which is not given.")
        return
    for option, given in (("--after", times.after), ("--wait", submission.wait), ("--run-id", submission.run_id)):
        if given:
            raise UsageError(f"{option} is for one run, and --every starts many; use one of them.")


async def _schedule(
    schedules: PostgresSchedules, submission: Submission, batch: Batch, team: str, shown: ViewOptions
) -> None:
    """Make a schedule whose runs begin with this batch, and print its name."""
    from teamwright.cluster.schedules import Cron, run_id_at, template_of
    from teamwright.errors import UsageError
    from teamwright.journal.postgres.cluster_tables import ScheduleRow

    times = submission.times
    assert times.every is not None
    cron, name = Cron.read(times.every), times.schedule or team
    now = await schedules.now()
    following = cron.after(now)
    run_id_at(name, following)  # raises if no run can have such an id
    row = ScheduleRow(name, cron.text, cron.zone, submission.queue, submission.priority, now, following)
    if not await schedules.add(row, template_of(batch)):
        raise UsageError(
            f"There is a schedule {name!r} already; name another one with --name, or remove it with"
            f"  teamwright cluster schedules {name} --remove"
        )
    first = datetime.fromtimestamp(following, UTC).isoformat(timespec="seconds")
    if shown.json:
        write_json({"schedule": name, "queue": submission.queue, "next": first}, shown.out)
        return
    write_result(name, shown.out)
    if not shown.quiet:
        say(f"starts a run at {first}, and at each later time; see  teamwright cluster schedules")


async def _report_submitted(engine: Engine, run_id: str, place: QueuePlace, shown: ViewOptions) -> None:
    from teamwright.values.turns.results import FINAL

    found = await engine.runs.find(run_id)
    status = found.status if found else "queued"
    if shown.json:
        starts = None if place.starts is None else datetime.fromtimestamp(round(place.starts), UTC).isoformat()
        write_json({"run_id": run_id, "status": status, "queue": place.queue, "starts": starts}, shown.out)
        return
    write_result(run_id, shown.out)
    if not shown.quiet:
        has_stopped = status in FINAL or status == "paused"
        where = str(place) if status == "queued" else f"it is {status}"
        hint = f"see it with: teamwright runs show {run_id}" if has_stopped else _follow_hint(run_id)
        say(f"{where}; {hint}")


def _follow_hint(run_id: str) -> str:
    return f"follow it with: teamwright runs show {run_id} --follow"


async def _wait(engine: Engine, run_id: str, place: QueuePlace, shown: ViewOptions) -> int:
    """Show a run as it goes on, on whichever worker, until it has ended or waits for a person."""
    from asyncio import CancelledError

    from teamwright.cli.foreground_run import report_end
    from teamwright.cli.terminal.interrupts import raise_on_interrupt
    from teamwright.cluster.status import follow_queued

    view = shown.view(engine)
    try:
        with raise_on_interrupt():
            if not shown.quiet:
                say(f"run {run_id} {place}")
            async for event in follow_queued(engine, run_id):
                await view.show(event)
    except (KeyboardInterrupt, CancelledError):  # Ctrl-C arrives as one of them
        say(f"run {run_id} goes on; {_follow_hint(run_id)}, or cancel it with: teamwright runs cancel {run_id}")
        raise
    finally:
        view.close()
    return await report_end(engine, await engine.runs.result(run_id), shown)


async def resubmit_run(engine: Engine, run_id: str, *, quiet: bool, json: bool, out: Path | None) -> int:
    """Put a run back into its queue, and print its id like `submit`."""
    with WING.needed("A queue with workers"):
        from teamwright.cluster.queue_client import opened_queue
        from teamwright.cluster.status import cluster_journal
        from teamwright.cluster.submission import resubmit

    async with opened_queue(cluster_journal().address) as client:
        queue = await resubmit(engine.journal, client, run_id)
    if json:
        write_json({"run_id": run_id, "status": "queued", "queue": queue}, out)
        return 0
    write_result(run_id, out)
    if not quiet:
        say(f"in the queue {queue!r}; follow it with: teamwright runs show {run_id} --follow")
    return 0


async def leave_queue() -> None:
    """Delete the entries of runs that were cancelled while they waited; where that fails, a worker does it later."""
    from teamwright.errors import JournalError, MissingExtra
    from teamwright.journal.location import database_url

    if database_url() is None:  # a copy in a file has no queue
        return
    with suppress(JournalError, MissingExtra), WING.needed("A queue with workers"):
        from teamwright.cluster.queue_client import opened_queue
        from teamwright.cluster.status import cluster_journal

        async with opened_queue(cluster_journal().address) as client:
            await client.delete_ended()
