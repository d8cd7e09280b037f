"""`teamwright runs resume`: continues a run, here or on a worker."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import extend_sys_path, load_manifest, recorded_source, with_run
from teamwright.cli.terminal.options import AllowRoot, Events, Full, MovedTo, NoInput, Quiet, Run
from teamwright.cli.terminal.output import Json, Out, check_out
from teamwright.errors import UsageError
from teamwright.wings import required_hook

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.teams.team import Team
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
    from teamwright.cli.views.result_wording import moment_text
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
