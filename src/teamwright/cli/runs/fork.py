"""`teamwright runs fork`: starts another run from a point of a record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import extend_sys_path, find_run, recorded_source, with_engine
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

if TYPE_CHECKING:
    from teamwright.cli.foreground_run import ViewOptions
    from teamwright.runtime.engine import Engine
    from teamwright.teams.team import Team
    from teamwright.values.limits import Limits


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
