"""Forks a run: the same past, something changed, a new id."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from teamwright.cli.driving import Shown, drive, tell
from teamwright.cli.importing import let_import_of
from teamwright.cli.output import say
from teamwright.cli.selection import find_run
from teamwright.errors import UsageError
from teamwright.teams.load import source_with, team_from
from teamwright.values.limits import Limits
from teamwright.values.specs import Source

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.history import RunHistory
    from teamwright.teams.team import Team


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different in the fork's team."""

    model: str | None = None
    tokens: int | None = None
    calls: int | None = None
    seconds: float | None = None

    def apply(self, source: Source) -> Source:
        """The source with these changes, of which there may be none."""
        changed = source if self.model is None else source_with(source, model=self.model)
        limits = {"tokens": self.tokens, "calls": self.calls, "seconds": self.seconds}
        given = {name: value for name, value in limits.items() if value is not None}
        if not given:
            return changed
        teams, agents = dict(changed.manifest.teams), dict(changed.manifest.agents)
        owner = teams.get(changed.team) or agents.get(changed.team)
        if owner is None:
            raise UsageError(f"The limits of {changed.team!r} can't be changed: the record does not declare it.")
        bounds = Limits.model_validate((owner.limits or Limits()).model_dump(exclude_none=True) | given)
        updated = owner.model_copy(update={"limits": bounds})
        declared = {"teams": teams | {changed.team: updated}} if changed.team in teams else {}
        declared = declared or {"agents": agents | {changed.team: updated}}
        return changed.model_copy(update={"manifest": changed.manifest.model_copy(update=declared)})


@dataclass(frozen=True, slots=True)
class Fork:
    """Where to fork, and with what."""

    run_id: str
    at: str | None
    retry: bool
    task: str | None
    new_id: str | None
    changes: Changes

    async def run(self, engine: Engine, shown: Shown) -> int:
        """Fork and drive the new run."""
        found = await find_run(engine.journal, self.run_id)
        history = await engine.history(found.id)
        let_import_of(history)
        handle = await engine.start_fork(
            found.id, at=self.at, retry=self.retry, task=self.task, new_id=self.new_id, team=self._team(engine, history)
        )
        if not shown.quiet:
            say(f"run {handle.run_id} is a fork of {found.id}")
        shared = takewhile(lambda event: event.kind != "run.resumed", await engine.journal.read(handle.run_id))
        ended = await drive(engine, handle, shown, [] if shown.events else list(shared))
        return await tell(engine, ended, shown)

    def _team(self, engine: Engine, history: RunHistory) -> Team | None:
        if self.changes == Changes():
            return None
        source = Source.model_validate(history.past.value(history.started.manifest))
        return team_from(self.changes.apply(source), engine.models)
