"""The source of a team with what travels with its runs; that of a recorded run, on whichever machine it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio

from teamwright.agents.clients.models import Models
from teamwright.errors import NotResumable, UsageError
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.protocol import Journal
from teamwright.teams.load import team_from_source
from teamwright.teams.run_files import unpacked_source
from teamwright.teams.team import Team
from teamwright.values.events.agent import Body
from teamwright.values.specs.manifest import Source


@dataclass(frozen=True, slots=True)
class TeamSource:
    """A source whose files are on this machine, and the stored files and code that travel with runs of its team."""

    source: Source
    files: Mapping[str, Body] = field(default_factory=dict[str, Body])
    code: str = ""
    moved_to: str = ""
    """The folder in which the manifest is now, if the caller says that it has moved."""
    run_id: str = ""
    """The run that recorded the source; empty for one that was loaded from files."""

    def changed(self, change: Callable[[Source], Source]) -> TeamSource:
        """Return it with another source, whose files are the same."""
        return replace(self, source=change(self.source))

    def build(self, models: Models, *, recorded: bool = False, environment: Mapping[str, str] | None = None) -> Team:
        """Build the team; one that is `recorded` is not checked again."""
        try:
            team = team_from_source(self.source, models, recorded=recorded, environment=environment)
        except UsageError as error:
            base = self.source.base
            if not self.run_id or not base or Path(base).is_dir():
                raise
            raise NotResumable(
                f"The folder {base!r} with the manifest of run {self.run_id!r} is gone. If it was moved or renamed, say"
                f" where it is now:  teamwright runs resume {self.run_id} --code DIR  (so does runs fork). Or take the"
                f" team of another manifest: runs resume --team FILE, or run FILE --continue {self.run_id}. ({error})"
            ) from error
        team.stored_files, team.code, team.moved_to = self.files, self.code, self.moved_to
        return team


async def read_source(journal: Journal, record: RunRecord, folder: Path | str = "") -> TeamSource:
    """Return the source of a run's team; the files that travelled with the run are unpacked unless they are here.

    `folder` is that of the manifest, if it has moved since the record says where it is.
    """
    start, source = record.start, record.source()
    moved_to = await anyio.to_thread.run_sync(_resolved, folder) if folder else ""
    if moved_to:
        source = source.moved(moved_to)
    source = await unpacked_source(source, start.files, journal.bodies)
    return TeamSource(source, start.files, start.code, moved_to, record.run_id)


def _resolved(folder: Path | str) -> str:
    if not Path(folder).is_dir():
        raise UsageError(f"There is no folder {str(folder)!r}; name the one in which the run's manifest is now.")
    return str(Path(folder).resolve())
