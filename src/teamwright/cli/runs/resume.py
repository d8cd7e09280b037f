"""`teamwright runs resume` and `runs fork`: go on with a run, or start another from a point of its record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import (
    extend_sys_path,
    find_run,
    load_manifest,
    recorded_source,
    with_engine,
    with_run,
)
from teamwright.cli.terminal.options import (
    AllowRoot,
    Events,
    Full,
    MaxCalls,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    MovedTo,
    NoInput,
    Quiet,
    Run,
    run_limits,
)
from teamwright.cli.terminal.output import Json, Out, check_out, say
from teamwright.errors import UsageError
from teamwright.wings import required_hook

if TYPE_CHECKING:
    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.runtime.engine import Engine
    from teamwright.teams.team import Team
    from teamwright.values.limits import Limits
    from teamwright.values.turns.results import RunSummary


LONGEST_SLEEP = 60.0
"""Seconds after which a wait for a point in time looks at the clock again."""


def resume(
    run: Run,
    *,
    events: Events = False,
    full: Full = False,
    quiet: Quiet = False,
    no_input: NoInput = False,
    allow_root: AllowRoot = None,
    code: MovedTo = None,
    team: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Resume with the team of this manifest in place of the recorded."),
    ] = None,
    submit: Annotated[
        bool,
        typer.Option("--submit", help="Put a submitted run back into its queue; workers drive it, not this process."),
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait while a provider takes no calls, and go on each time that it does again."),
    ] = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Resume an interrupted or paused run.

    Recorded calls are not made or paid again. Code that the run's manifest names is loaded, as when it was started, and
    folders that were allowed then still are. --code is recorded: the next resume finds the folder by itself.

    Example:
      teamwright runs resume last
    """
    from teamwright.cli.foreground_run import ViewOptions, drive, report_end
    from teamwright.errors import UsageError

    shown = ViewOptions(json, events, quiet, out, no_input, full)
    check_out(out)
    if submit and (code or team or wait):
        what = "wait by themselves; leave out --wait" if wait else "have its code; leave out --code and --from"
        raise UsageError(f"--submit gives the run to workers, which {what}.")

    async def work(engine: Engine, found: RunSummary) -> int:
        if submit:
            resubmit_run = required_hook("resubmit_run", "--submit")
            return await resubmit_run(engine, found.id, quiet=quiet, json=json, out=out)

        resume_at = found.resume_at
        while True:
            if wait and resume_at:
                await _wait_until(resume_at, quiet=quiet)
            history = await engine.runs.history(found.id)
            extend_sys_path()
            made = await team_to_resume(engine, found.id, allow_root, code, team)
            handle = await engine.start_resume(found.id, team=made)
            ended = await drive(engine, handle, shown, list(history.events))
            resume_at = ended.resume_at
            if not (wait and resume_at):
                return await report_end(engine, ended, shown, is_fork=history.record.inherited > 0)

    return with_run(run, work)


async def _wait_until(time: str, *, quiet: bool) -> None:
    """Wait, with nothing held, until a provider takes calls again; changes of the clock are noticed meanwhile."""
    from time import time as now

    import anyio

    from teamwright.cli.terminal.output import say
    from teamwright.cli.terminal.result_wording import moment_text
    from teamwright.values.turns.results import seconds_until

    if not quiet and seconds_until(time, now()):
        say(f"waits until {moment_text(time)}: a provider takes no calls before")
    while left := seconds_until(time, now()):  # noqa: ASYNC110 - nothing else says that the time has come
        await anyio.sleep(min(left, LONGEST_SLEEP))


async def team_to_resume(
    engine: Engine, run_id: str, allow_roots: Sequence[Path] | None, code: Path | None, file: Path | None
) -> Team | None:
    """The team of a run in other folders, or of another file; None lets the engine build it from the record."""
    from teamwright.teams.team_loader import source_of, team_from_source

    if file is None:
        if not allow_roots and code is None:
            return None
        found = await recorded_source(engine, run_id, allow_roots=allow_roots or (), code=code)
        return found.build(engine.models, recorded=True)
    if code is not None:
        raise UsageError("--code says where the manifest of the run is now, and --from names another; use one of them.")
    loaded = load_manifest([file], None)
    recorded = (await engine.runs.history(run_id)).record.source().team
    declared = {*loaded.manifest.teams, *loaded.manifest.agents}
    source = source_of(loaded, team=recorded if recorded in declared else None, allow_roots=allow_roots or ())
    return team_from_source(source, engine.models)


def fork(
    run: Run,
    task: Annotated[
        str | None, typer.Argument(metavar="[TASK]", help="Use another task; turns that read it are asked again.")
    ] = None,
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POINT",
            help="Fork at a checkpoint, by its name or number, or at an event number.",
        ),
    ] = None,
    retry: Annotated[bool, typer.Option("--retry", help="Fork just before the failure.")] = False,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Use this model for new calls.")] = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_calls: MaxCalls = None,
    max_seconds: MaxSeconds = None,
    run_id: Annotated[str | None, typer.Option("--run-id", metavar="ID", help="Id of the new run.")] = None,
    events: Events = False,
    full: Full = False,
    quiet: Quiet = False,
    no_input: NoInput = False,
    allow_root: AllowRoot = None,
    code: MovedTo = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Start a new run from the record of another one.

    Turns whose input is unchanged keep their replies and are not paid again. The team is the recorded one: a manifest
    that was edited since is not read, but scripts of replies and code that it names are; the code is loaded, as when
    the run was started. Folders that were allowed then still are. To use an edited manifest, start a new run.

    Examples:
      teamwright runs fork last --retry
      teamwright runs fork last --at round-1 --model openai:gpt-5-mini
    """
    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.cli.terminal.command_setup import check_new_id

    shown = ViewOptions(json, events, quiet, out, no_input, full)
    check_out(out)
    check_new_id(run_id)
    if at is not None and retry:
        raise UsageError("--at and --retry both say where to fork; use one of them.")
    limits = run_limits(max_tokens, max_usd, max_calls, max_seconds)
    wanted = Fork(run, at, retry, task, run_id, model, limits, tuple(allow_root or ()), code)
    return with_engine(lambda engine: wanted.run(engine, shown))


@dataclass(frozen=True, slots=True)
class Fork:
    """Where to fork a run, and what to change."""

    run_id: str
    at: str | None
    retry: bool
    task: str | None
    new_id: str | None
    model: str | None
    limits: Limits | None
    allow_roots: tuple[Path, ...] = ()
    code: Path | None = None

    async def run(self, engine: Engine, shown: ViewOptions) -> int:
        from teamwright.cli.foreground_run import drive, report_end
        from teamwright.teams.preflight import check_ready

        found = await find_run(engine.journal, self.run_id)
        extend_sys_path()
        team = await self._team(engine, found.id)
        if team is not None:
            await check_ready(team, engine.models)
        handle = await engine.start_fork(
            found.id,
            at=self.at,
            retry=self.retry,
            task=self.task,
            new_id=self.new_id,
            team=team,
            limits=self.limits,
        )
        if not shown.quiet:
            again = "" if self.task is None else "; turns that read the task are asked again"
            say(f"run {handle.run_id} is a fork of {found.id}{again}")
        shared = takewhile(lambda event: event.kind != "run.resumed", await engine.journal.read(handle.run_id))
        ended = await drive(engine, handle, shown, [] if shown.events else list(shared))
        return await report_end(engine, ended, shown, is_fork=True)

    async def _team(self, engine: Engine, run_id: str) -> Team | None:
        """The team with another model or other folders; None lets the engine build it from the record."""
        from teamwright.teams.team_loader import source_with_limits

        if self.model is None and not self.allow_roots and self.code is None:
            return None
        found = await recorded_source(engine, run_id, self.model, self.allow_roots, self.code)
        if self.limits is not None:
            found = found.changed(partial(source_with_limits, limits=self.limits))
        return found.build(engine.models, recorded=True)
