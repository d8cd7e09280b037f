"""`teamwright runs fork`: starts a new run from the record of another one, with something changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from teamwright.cli.interactive.drive import ViewOptions, drive, report_end
from teamwright.cli.interactive.find_run import find_run
from teamwright.cli.interactive.sys_path import extend_sys_path
from teamwright.cli.interactive.team_source import load_manifest, recorded_source
from teamwright.cli.terminal.output import say
from teamwright.errors import UsageError
from teamwright.teams.load import source_of, source_with_limits, team_from_source
from teamwright.teams.preflight import check_ready

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from teamwright.runtime.engine import Engine
    from teamwright.teams.team import Team
    from teamwright.values.limits.limits import Limits


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
        """Fork and drive the new run."""
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
            say(f"run {handle.run_id} is a fork of {found.id}")
        shared = takewhile(lambda event: event.kind != "run.resumed", await engine.journal.read(handle.run_id))
        ended = await drive(engine, handle, shown, [] if shown.events else list(shared))
        return await report_end(engine, ended, shown)

    async def _team(self, engine: Engine, run_id: str) -> Team | None:
        """The team with another model or other folders; None lets the engine build it from the record."""
        if self.model is None and not self.allow_roots and self.code is None:
            return None
        found = await recorded_source(engine, run_id, self.model, self.allow_roots, self.code)
        if self.limits is not None:
            found = found.changed(partial(source_with_limits, limits=self.limits))
        return found.build(engine.models, recorded=True)


async def team_to_resume(
    engine: Engine, run_id: str, allow_roots: Sequence[Path] | None, code: Path | None, file: Path | None
) -> Team | None:
    """The team of a run in other folders, or of another file; None lets the engine build it from the record."""
    if file is None:
        if not allow_roots and code is None:
            return None
        found = await recorded_source(engine, run_id, allow_roots=allow_roots or (), code=code)
        return found.build(engine.models, recorded=True)
    if code is not None:
        raise UsageError("--code says where the manifest of the run is now, and --team names another; use one of them.")
    loaded = load_manifest([file], None)
    recorded = (await engine.runs.history(run_id)).record.source().team
    declared = {*loaded.manifest.teams, *loaded.manifest.agents}
    source = source_of(loaded, team=recorded if recorded in declared else None, allow_roots=allow_roots or ())
    return team_from_source(source, engine.models)
