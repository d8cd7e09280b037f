"""`teamwright runs fork`: starts a new run from the record of another one, with something changed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from teamwright.cli.interactive.drive import ViewOptions, drive, report_end
from teamwright.cli.interactive.find_run import find_run
from teamwright.cli.interactive.sys_path import extend_sys_path
from teamwright.cli.terminal.output import say
from teamwright.teams.load import source_with_limits, source_with_model, source_with_roots, team_from_source
from teamwright.teams.preflight import check_ready

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from teamwright.agents.clients.models import Models
    from teamwright.history.history import RunHistory
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

    async def run(self, engine: Engine, shown: ViewOptions) -> int:
        """Fork and drive the new run."""
        found = await find_run(engine.journal, self.run_id)
        history = await engine.runs.history(found.id)
        extend_sys_path()
        team = self._team(engine, history)
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

    def _team(self, engine: Engine, history: RunHistory) -> Team | None:
        """The team with another model or more folders; None lets the engine build it from the record."""
        if self.model is None and not self.allow_roots:
            return None
        source = history.record.source()
        source = source_with_roots(source, self.allow_roots)
        if self.model is not None:
            source = source_with_model(source, model=self.model)
        return team_from_source(
            source_with_limits(source, self.limits) if self.limits else source, engine.models, recorded=True
        )


def team_allowing(history: RunHistory, allow_roots: Sequence[Path] | None, models: Models) -> Team | None:
    """The team of a run whose file tools may use more folders; None lets the engine build it from the record."""
    if not allow_roots:
        return None
    source = history.record.source()
    return team_from_source(source_with_roots(source, allow_roots), models, recorded=True)
