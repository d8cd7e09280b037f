"""`teamwright runs`: looks at runs, takes them up again, ends them and clears them away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.interactive.open import with_engine, with_journal, with_run
from teamwright.cli.runs.inspect import checkpoint, checkpoints, diff, logs
from teamwright.cli.runs.kpi import kpi
from teamwright.cli.terminal.options import (
    AllowRoot,
    Events,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    NoInput,
    Quiet,
    Run,
    run_limits,
)
from teamwright.cli.terminal.output import Json, Out, check_out, result, result_json, say

if TYPE_CHECKING:
    from pathlib import Path

    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.values.results import RunResult, RunSummary

app = typer.Typer(
    help="Look at runs, go on with them, end them.\n\nRUN is a run's id, a unique beginning of it, or `last`.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("list")
def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many; 0 is all.")] = 0,
    status: Annotated[list[str] | None, typer.Option("--status", help="Only these; may be repeated.")] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """List runs, newest first."""
    from teamwright.cli.runs.answer import answered_runs
    from teamwright.cli.text.table import check_statuses, table

    check_out(out)
    wanted = check_statuses(status)

    async def work(journal: Journal) -> int:
        every = await journal.runs(None if wanted or not limit else limit)
        runs = [run for run in every if not wanted or run.status in wanted][: limit or None]
        answered = await answered_runs(journal, runs)
        if json:
            told = [run.to_json() | ({"answered": True} if run.id in answered else {}) for run in runs]
            result_json(told, out)
        elif runs:
            result(table(runs, answered), out)
        elif every:
            say(f"There are no {' or '.join(wanted)} runs here. See all with  teamwright runs list")
        else:
            say("There are no runs here. Start one with  teamwright run MANIFEST TASK")
        return 0

    return with_journal(work)


@app.command()
def show(run: Run, json: Json = False, out: Out = None) -> int:
    """Explain a run to somebody who was not there.

    The task, who said what, when and for how much, why it ended, and what can be done next.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.text.explain import account_of, explained

        history, answers = await engine.runs.history(found.id), await engine.runs.answers(found.id)
        account = account_of(history, await engine.runs.result(found.id), answers)
        if json:
            result_json(account.to_json(), out)
        else:
            result(explained(account), out)
        return 0

    return with_run(run, work)


@app.command()
def tail(
    run: Run,
    after: Annotated[int, typer.Option("--after", min=0, metavar="N", help="Begin after event N.")] = 0,
    events: Events = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Follow a run until it stops.

    It may be driven by another process. Lines are numbered by event, and --after goes on from one.
    """
    from teamwright.cli.interactive.drive import Shown

    shown = Shown(json=json, events=events, out=out)
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.tail import follow

        await follow(engine, found.id, after, shown)
        return 0

    return with_run(run, work)


app.command()(logs)
app.command()(diff)
app.command()(checkpoints)
app.command()(kpi)


@app.command()
def resume(
    run: Run,
    *,
    events: Events = False,
    quiet: Quiet = False,
    no_input: NoInput = False,
    allow_root: AllowRoot = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Go on with an interrupted or paused run.

    Nothing that is recorded is paid again. Code that the run's manifest names is loaded, as when it was started, and
    folders that were allowed then still are.
    """
    from teamwright.cli.interactive.drive import Shown

    shown = Shown(json, events, quiet, out, no_input)
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.interactive.drive import drive, tell
        from teamwright.cli.interactive.sys_path import let_import_of
        from teamwright.cli.runs.fork import team_allowing

        history = await engine.runs.history(found.id)
        let_import_of(history)
        past = list(history.events)
        handle = await engine.start_resume(found.id, team=team_allowing(history, allow_root, engine.models))
        return await tell(engine, await drive(engine, handle, shown, past), shown)

    return with_run(run, work)


@app.command()
def fork(
    run: Run,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POINT",
            help="Share the past up to a checkpoint, by its name or number, or up to an event.",
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Go back to just before the failure.")] = False,
    task: Annotated[str | None, typer.Option("--task", help="Ask something else.")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Use this model for what is asked anew.")] = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="Name the new run.")] = None,
    events: Events = False,
    quiet: Quiet = False,
    no_input: NoInput = False,
    allow_root: AllowRoot = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Start a new run from another one's record.

    What is unchanged is not paid again. Code that the run's manifest names is loaded, as when it was started; folders
    that were allowed then still are.
    """
    from teamwright.cli.interactive.drive import Shown
    from teamwright.cli.interactive.find_run import check_new_id
    from teamwright.cli.runs.fork import Fork
    from teamwright.errors import UsageError

    shown = Shown(json, events, quiet, out, no_input)
    check_out(out)
    check_new_id(run_id)
    if at is not None and retry:
        raise UsageError("--at and --retry both say where to fork; choose one of them.")
    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)
    wanted = Fork(run, at, retry, task, run_id, model, limits, tuple(allow_root or ()))
    return with_engine(lambda engine: wanted.run(engine, shown))


app.command()(checkpoint)


@app.command()
def cancel(
    run: Run,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.")] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """End a run for good, wherever it is driven."""
    return _change(run, lambda engine, run_id: engine.runs.cancel(run_id, reason), out, json=json)


@app.command()
def pause(run: Run, json: Json = False, out: Out = None) -> int:
    """Let the calls of a live run finish, and set it down; `runs resume` goes on with it."""
    return _change(run, lambda engine, run_id: engine.runs.pause(run_id), out, json=json)


@app.command()
def answer(
    run: Run,
    text: Annotated[str | None, typer.Argument(metavar="[TEXT]", help="What to answer.")] = None,
    *,
    key: Annotated[str | None, typer.Option("--key", help="Which question, where several are open.")] = None,
    approve: Annotated[bool, typer.Option("--approve", help="Let it go on as it is.")] = False,
    reject: Annotated[
        str | None, typer.Option("--reject", metavar="REASON", help="Do not let it go on, and say why.")
    ] = None,
    edit: Annotated[str | None, typer.Option("--edit", metavar="TEXT", help="Let it go on with this instead.")] = None,
    edit_file: Annotated[
        str | None, typer.Option("--edit-file", metavar="FILE", help="The same from a file; `-` is stdin.")
    ] = None,
    by: Annotated[str, typer.Option("--by", help="Who answers; it is recorded.")] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Answer a question that a run has asked, or list what is open.

    A run that is under way takes the answer at once; one that was set down, when it is resumed.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.answer import Given, Open

        given = Given(text, approve, reject, edit, edit_file, by).answer()
        waiting = await Open.of(engine, found.id)
        if given is None:
            if json:
                result_json(waiting.to_json(), out)
            else:
                result(waiting.words(), out)
            return 0
        which = waiting.which(key)
        await engine.runs.answer(found.id, which, given)
        if json:
            result_json({"run_id": found.id, "key": which, "answer": given.text, "data": given.data}, out)
        else:
            result(f"answered {which}", out)
        if found.status != "running":
            say(f"go on with: teamwright runs resume {found.id}")
        return 0

    return with_run(run, work)


@app.command()
def export(run: Run, json: Json = False, out: Out = None) -> int:  # noqa: ARG001 - an export is JSON in any case
    """Write a whole run as one JSON document.

    Result, manifest, events, and the bodies that events refer to.
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.runs.export import exported

        result_json(await exported(engine, found.id), out)
        return 0

    return with_run(run, work)


@app.command()
def prune(
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Started longer ago: 90s, 30m, 12h, 7d, 4w.")
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="Only these, also interrupted and paused ones; may be repeated."),
    ] = None,
    keep: Annotated[int, typer.Option("--keep", min=0, metavar="N", help="Keep the newest N of them.")] = 0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Delete runs that have ended, and give their space back."""
    from teamwright.cli.runs.prune import Prune, age_of

    check_out(out)
    wanted = Prune(
        age_of(older_than) if older_than is not None else None, tuple(status or ()), keep, yes=yes, dry_run=dry_run
    )

    async def work(journal: Journal) -> int:
        pruned = await wanted.run(journal)
        if json:
            result_json(pruned.to_json(), out)
        else:
            result(pruned.words(), out)
        return 0

    return with_journal(work)


def _change(run: str, how: Callable[[Engine, str], Awaitable[RunResult]], out: Path | None, *, json: bool) -> int:
    """Do something to a run, and say how it stands then."""
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.interactive.drive import is_free, summary

        standing = await how(engine, found.id)
        if json:
            result_json(standing.to_json(), out)
        else:
            result(summary(standing, free=await is_free(engine, standing)), out)
        return 0

    return with_run(run, work)
