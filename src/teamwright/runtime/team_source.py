"""The source of a team with what travels with its runs; that of a recorded run, on whichever machine it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from teamwright.agents.clients.models import Models
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.protocol import JournalReader
from teamwright.teams.file_cache import unpacked_source
from teamwright.teams.load import team_from_source
from teamwright.teams.team import Team
from teamwright.values.events.body import Body
from teamwright.values.specs.manifest import Source


@dataclass(frozen=True, slots=True)
class TeamSource:
    """A source whose files are on this machine, and the stored files and code that travel with runs of its team."""

    source: Source
    files: Mapping[str, Body] = field(default_factory=dict[str, Body])
    code: str = ""

    def changed(self, change: Callable[[Source], Source]) -> TeamSource:
        """Return it with another source, whose files are the same."""
        return replace(self, source=change(self.source))

    def build(self, models: Models, *, recorded: bool = False, environment: Mapping[str, str] | None = None) -> Team:
        """Build the team; one that is `recorded` is not checked again."""
        team = team_from_source(self.source, models, recorded=recorded, environment=environment)
        team.stored_files, team.code = self.files, self.code
        return team


async def read_source(journal: JournalReader, record: RunRecord) -> TeamSource:
    """Return the source of a run's team; the files that travelled with the run are unpacked unless they are here."""
    start = record.start
    source = await unpacked_source(record.source(), start.files, journal.bodies)
    return TeamSource(source, start.files, start.code)
