"""`teamwright submit`: puts a run into a queue, and follows it where wanted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.cluster.package import needs_cluster
from teamwright.cli.cluster.worker import QueueName
from teamwright.cli.interactive.open import run_on_loop
from teamwright.cli.interactive.team_source import load_manifest
from teamwright.cli.run import Attach, RunId, TaskFile, TaskText, read_task
from teamwright.cli.terminal.options import (
    AllowRoot,
    Events,
    Full,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Model,
    Quiet,
    TeamName,
    With,
    run_limits,
)
from teamwright.cli.terminal.output import Json, Out, check_out, redirect_prints, say, write_json, write_result

if TYPE_CHECKING:
    from teamwright.cli.interactive.drive import ViewOptions
    from teamwright.runtime.engine import Engine
    from teamwright.teams.team import Team
    from teamwright.values.limits.limits import Limits


@dataclass(frozen=True, slots=True)
class Submission:
    """The arguments of `teamwright submit`."""

    paths: tuple[Path, ...]
    task: str | None
    team: str | None
    model: str | None
    run_id: str | None
    queue: str
    priority: int
    attach: tuple[str, ...]
    allow_roots: tuple[Path, ...]
    limits: Limits | None
    budget: str | None
    wait: bool


def submit(
    manifest: Annotated[
        Path, typer.Argument(metavar="MANIFEST", help="A file, or a folder whose YAML files load together.")
    ],
    task: TaskText = None,
    *,
    queue: QueueName = "default",
    priority: Annotated[
        int, typer.Option("--priority", help="Runs with a higher number start first; 0 by default.")
    ] = 0,
    wait: Annotated[bool, typer.Option("--wait", help="Follow the run, and print its answer like `run`.")] = False,
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
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="NAME", help="The tenant's budget that the run draws on.")
    ] = None,
    events: Events = False,
    full: Full = False,
    quiet: Quiet = False,
    allow_root: AllowRoot = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Put a run into a queue, from which any worker takes it. Prints the run's id.

    The journal must be in Postgres. Every command on runs works on queued ones: list, show, tail, answer, cancel.
    """
    from teamwright.cli.interactive.drive import ViewOptions
    from teamwright.cli.interactive.find_run import check_new_id
    from teamwright.cli.validate import validate_on_error

    check_out(out)
    check_new_id(run_id)
    submission = Submission(
        paths=(manifest, *(more or ())),
        task=read_task(task, file),
        team=team,
        model=model,
        run_id=run_id,
        queue=queue,
        priority=priority,
        attach=tuple(attach or ()),
        allow_roots=tuple(allow_root or ()),
        limits=run_limits(max_tokens, max_usd, max_calls, max_seconds),
        budget=budget,
        wait=wait,
    )
    shown = ViewOptions(json, events, quiet, out, no_input=True, full=full)
    with redirect_prints(), validate_on_error(list(submission.paths), model, submission.allow_roots):
        return run_on_loop(partial(_submit, submission, shown))


async def _submit(submission: Submission, shown: ViewOptions) -> int:
    with needs_cluster():
        from teamwright.cluster.journal import cluster_journal
        from teamwright.cluster.queue.client import QueueClient
    from teamwright.cli.interactive.sys_path import extend_sys_path
    from teamwright.runtime.engine import Engine

    extend_sys_path()
    journal = cluster_journal()
    async with Engine(journal) as engine:
        team, task = await _team_and_task(engine, submission)
        batch = await engine.enqueue(
            team,
            task,
            queue=submission.queue,
            run_id=submission.run_id,
            limits=submission.limits,
            attachments=submission.attach,
            budget=submission.budget,
        )
        client = QueueClient(journal.address)
        await client.open()
        try:
            if not await client.submit(batch, submission.queue, priority=submission.priority):
                say(f"run {batch.run_id} exists already; nothing new is submitted")
        finally:
            await client.close()
        if submission.wait:
            return await _wait(engine, batch.run_id, shown)
        await _report_submitted(engine, batch.run_id, submission.queue, shown)
        return 0


async def _team_and_task(engine: Engine, submission: Submission) -> tuple[Team, str]:
    """Load the team, check that it can run, and find the task: that of the arguments, or the manifest's query."""
    from teamwright.errors import UsageError
    from teamwright.teams.load import source_of, team_from_source
    from teamwright.teams.preflight import check_ready

    loaded = load_manifest(list(submission.paths), submission.model)
    matching = [one for one in loaded.queries.values() if submission.team in {None, one.target}]
    query = matching[0] if submission.task is None and len(matching) == 1 else None
    task = query.task if query is not None else submission.task
    if not task or not task.strip():
        raise UsageError('There is no task: give it as an argument ("…"), with --file FILE, or as - from stdin.')
    name = submission.team or (query.target if query is not None else None) or None
    source = source_of(loaded, team=name, model=submission.model, allow_roots=submission.allow_roots)
    team = team_from_source(source, engine.models)
    await check_ready(team, engine.models, loaded.places)
    return team, task


async def _report_submitted(engine: Engine, run_id: str, queue: str, shown: ViewOptions) -> None:
    found = await engine.runs.find(run_id)
    if shown.json:
        write_json({"run_id": run_id, "status": found.status if found else "queued", "queue": queue}, shown.out)
        return
    write_result(run_id, shown.out)
    if not shown.quiet:
        say(f"in the queue {queue!r}; follow it with: teamwright runs tail {run_id}")


async def _wait(engine: Engine, run_id: str, shown: ViewOptions) -> int:
    """Show a run as it goes on, on whichever worker, until it has ended or waits for a person."""
    from teamwright.cli.interactive.drive import report_end
    from teamwright.cli.terminal.interrupts import raise_on_interrupt
    from teamwright.cluster.progress import follow_queued

    view = shown.view(engine)
    try:
        with raise_on_interrupt():
            async for event in follow_queued(engine, run_id):
                await view.show(event)
    finally:
        view.close()
    return await report_end(engine, await engine.runs.result(run_id), shown)
