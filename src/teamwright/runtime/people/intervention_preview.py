"""What a run without a driver would say to an intervention: its record is replayed in memory, as far as it goes.

Nothing new happens: no member takes a turn, no code is loaded, and nothing is recorded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio

from teamwright.agents.functions.imports import code_not_loaded
from teamwright.errors import TeamwrightError
from teamwright.runtime.people.applied_interventions import interventions_of, joining_agent, refusal_now
from teamwright.runtime.recorded.held_replay import HoldingObserver, end_of_record, held_replay, record_of, replay_of
from teamwright.runtime.recorded.reader import TeamSource, read_source
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied
from teamwright.values.key import nearest_key
from teamwright.values.people import AddMember, Steer, TeamChange

if TYPE_CHECKING:
    from teamwright.agents.clients.client_pool import Models
    from teamwright.agents.contract.agent import Agent
    from teamwright.history.record.run_record import RunRecord
    from teamwright.history.run_history import RunHistory
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.run import Run
    from teamwright.teams.team import Team
    from teamwright.values.events.event import Event
    from teamwright.values.turns.turn import Turn

SECONDS = 20.0
"""How long the replay may take; whatever it leaves open, the next driver decides."""
TEAM = "team"


async def undriven_refusal(journal: Journal, history: RunHistory, steer: Steer, models: Models) -> str | None:
    """Return why a run could not take an intervention after what is in its inbox.

    None if it could, or if that is unknown here: its team, or a member that joins, can't be rebuilt.
    """
    with code_not_loaded():
        try:
            return await _refusal(journal, history, steer, models)
        except TeamwrightError:
            return None


async def _refusal(journal: Journal, history: RunHistory, steer: Steer, models: Models) -> str | None:
    record = await record_of(journal, _without_open_turns(history.events))
    team = await _team_of(journal, record, models)
    run = replay_of(record, team)
    interventions_of(run.control.state, team)  # so that the team is held where it would take a change
    async with _replayed(run) if isinstance(steer, TeamChange) else _as_recorded(run):
        state, interventions = run.control.state, interventions_of(run.control.state, team)
        for item in await journal.inbox(record.run_id):
            sent = item.intervention
            if item.id <= record.last_inbox_item or not isinstance(sent, Steer):
                continue
            if refusal_now(state, team, sent) is None:
                if isinstance(sent, AddMember):
                    joining_agent(interventions, sent)
                interventions.accept(sent, item.id)
        return refusal_now(state, team, steer)


async def _team_of(journal: Journal, record: RunRecord, models: Models) -> Team:
    """Return the team of a record without its code; environment variables need not be set here."""
    from teamwright.teams.manifests.environment_variables import lenient_environment
    from teamwright.teams.team_loader import without_code

    found = (await read_source(journal, record)).changed(without_code)
    environment = lenient_environment(found.source.manifest)
    load = partial(TeamSource.build, found, models, recorded=True, environment=environment)
    return await anyio.to_thread.run_sync(load)


def _without_open_turns(events: Sequence[Event]) -> list[Event]:
    """Return the events without those within turns of members that have not ended: nothing goes on in them here."""
    ended = {event.key for event in events if isinstance(event.fact, AgentReplied | AgentFailed)}
    open_ = {
        event.key
        for event in events
        if isinstance(event.fact, AgentAsked) and event.fact.member_kind != TEAM and event.key not in ended
    }
    return [event for event in events if not nearest_key(event.scope, open_)]


@asynccontextmanager
async def _as_recorded(run: Run) -> AsyncGenerator[None]:
    """Leave the run as its record has it: what its team does is not asked for."""
    run.control.state.limits = run.control.state.record.limits()
    yield


@asynccontextmanager
async def _replayed(run: Run) -> AsyncGenerator[None]:
    """Replay a record to its end, and hold it there."""
    observer = _Hold()
    async with held_replay(run, observer) as driving:
        with anyio.move_on_after(SECONDS):
            await end_of_record(run, observer, driving)
        yield


class _Hold(HoldingObserver):
    """Holds every member that would take a turn, every call that is not recorded, and a team where it would go on."""

    async def turn(self, key: str, member: Agent, turn: Turn) -> None:
        """Let teams work; hold their members."""
        if member.kind != TEAM:
            await self.hold()

    async def place(self, *, is_recorded: bool) -> None:
        """Hold the team before it begins what is not recorded: there it takes what people change."""
        if not is_recorded:
            await self.hold()
