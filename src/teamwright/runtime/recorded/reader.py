"""Reads a recorded run from the journal: its events, the record that a replay needs, and the source of its team.

What only some of that needs, such as manifests, loads at its first use. A run that was deleted while it was read does
not count as damaged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from teamwright.errors import JournalCorrupt, NotResumable, RunIsLive, RunNotFound, UsageError
from teamwright.journal.protocol import Journal
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event

if TYPE_CHECKING:
    from teamwright.agents.clients.client_pool import Models
    from teamwright.history.recorded_asks import Texts
    from teamwright.history.run_record import RunRecord
    from teamwright.teams.team import Team
    from teamwright.values.limits import Limits
    from teamwright.values.specs.manifest import Source
    from teamwright.values.turns.results import RunSummary


async def run_not_found(journal: Journal, run_id: str) -> RunNotFound:
    """Return the error for an unknown run, with the nearest id among the newest runs."""
    return RunNotFound(run_id, [summary.id for summary in await journal.runs(200)])


async def deletable_family(journal: Journal, run: RunSummary) -> tuple[str, ...]:
    """Return the ids of a run and of its child runs, which are deleted together.

    Raises `UsageError` if a worker will drive it, and `RunIsLive` if a process does, or drives one of its children.
    """
    if run.status == "queued":
        raise UsageError(
            f"Run {run.id!r} is queued, and a worker may drive it at any moment: end it first with"
            f"  teamwright runs cancel {run.id}"
        )
    family = [run, *await journal.descendants([run.id])]
    if running := next((one for one in family if one.status == "running"), None):
        raise RunIsLive(running.id)
    return tuple(one.id for one in family)


@asynccontextmanager
async def deleted_is_not_found(journal: Journal, run_id: str) -> AsyncGenerator[None]:
    """Raise `RunNotFound` instead of `JournalCorrupt` if parts of a run are missing because it was deleted."""
    try:
        yield
    except JournalCorrupt:
        if await journal.find(run_id) is not None:
            raise
        raise await run_not_found(journal, run_id) from None


async def read_events(journal: Journal, run_id: str, without: Collection[str] = ()) -> list[Event]:
    """Return the run's events except those of the kinds `without`; raises `RunNotFound` if there are none."""
    events = await journal.read(run_id, without=without)
    if not events:
        raise await run_not_found(journal, run_id)
    return events


async def read_record(journal: Journal, run_id: str) -> RunRecord:
    """Return what a replay needs, without the effects of ended turns, which make up most of a long record."""
    from teamwright.history.recorded_asks import RecordedBodies
    from teamwright.history.run_record import EFFECTS, RunRecord, check_record
    from teamwright.values.events.event import fold

    async with deleted_is_not_found(journal, run_id):
        events = await read_events(journal, run_id, without=EFFECTS)
        check_record(events, whole=False)
        record = RunRecord.from_events(events)
        later = await journal.read(run_id, record.first_open_turn())
        # A driver that has lost its lock, and does not know it yet, may have written between the two reads.
        fold((event for event in later if event.number > events[-1].number and event.kind not in EFFECTS), record)
        first = record.first_open_turn()
        for event in later:
            if event.kind in EFFECTS and event.number > first:
                record.apply_effect(event)
        record.bodies = RecordedBodies(await journal.bodies(record.needed_bodies()))
        return record


async def read_texts(journal: Journal, event: Event) -> Texts:
    """Return the texts that an event refers to, by name."""
    from teamwright.history.recorded_asks import RecordedBodies, bodies_of, texts_of

    async with deleted_is_not_found(journal, event.run_id):
        return texts_of(event, RecordedBodies(await journal.bodies(set(bodies_of(event)))))


class TeamSource(Struct, frozen=True):
    """A source whose files are on this machine, and the stored files and code that travel with runs of its team."""

    source: Source
    files: Mapping[str, Body] = {}
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
        from teamwright.teams.team_loader import team_from_source

        try:
            team = team_from_source(self.source, models, recorded=recorded, environment=environment)
        except UsageError as error:
            base = self.source.base
            if not self.run_id or not base or Path(base).is_dir():
                raise
            raise NotResumable(
                f"The folder {base!r} with the manifest of run {self.run_id!r} is gone. If it was moved or renamed, say"
                f" where it is now:  teamwright runs resume {self.run_id} --code DIR  (so does runs fork). Or take the"
                f" team of another manifest: runs resume --from FILE, or run FILE --continue {self.run_id}. ({error})"
            ) from error
        team.stored_files, team.code, team.moved_to = self.files, self.code, self.moved_to
        return team


async def read_source(journal: Journal, record: RunRecord, folder: Path | str = "") -> TeamSource:
    """Return the source of a run's team; the files that travelled with the run are unpacked unless they are here.

    `folder` is that of the manifest, if it has moved since the record says where it is.
    """
    from teamwright.teams.run_files import unpacked_source

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


async def read_team(
    journal: Journal, record: RunRecord, models: Models, limits: Limits | None = None, code: Path | str = ""
) -> Team:
    """Load the team of a record, in a thread: it reads files and imports functions."""
    from teamwright.teams.team_loader import source_with_limits

    found = await read_source(journal, record, code)
    if limits is not None:
        found = found.changed(lambda source: source_with_limits(source, limits))
    return await anyio.to_thread.run_sync(partial(found.build, models, recorded=True))
