"""Replays in memory: a run is driven from its record, and held where it would do what is not recorded. So a run
without a driver can say what it would answer to an intervention.

No member takes a turn, no code is loaded, nothing is called, and nothing is written to the journal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from teamwright.agents.functions.imports import code_not_loaded
from teamwright.errors import TeamwrightError
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.history.run_record import RunRecord
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.budget.rate_limiter import RateLimiters
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.people.applied_interventions import interventions_of, joining_agent, refusal_now
from teamwright.runtime.recorded.reader import TeamSource, read_source
from teamwright.runtime.run import Run
from teamwright.runtime.run_state import ReplayObserver
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied
from teamwright.values.people import AddMember, Steer, TeamChange
from teamwright.values.run_keys import nearest_key

if TYPE_CHECKING:
    from teamwright.agents.agent import Agent
    from teamwright.agents.clients.client_pool import Models
    from teamwright.agents.effect import Effect
    from teamwright.history.run_history import RunHistory
    from teamwright.journal.protocol import Journal
    from teamwright.teams.team import Team
    from teamwright.values.events.agent import Body
    from teamwright.values.events.event import Event
    from teamwright.values.turns.results import RunResult
    from teamwright.values.turns.turn import Turn


class HoldingObserver(ReplayObserver):
    """Lets a replay take the turns of its record, and holds every call that is not in it."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        """Whether something is held, or has been seen that the replay was for."""

    async def turn(self, key: str, member: Agent, turn: Turn) -> None:
        """Let members repeat their recorded calls."""

    async def call(self, key: str, effect: Effect, *, is_recorded: bool) -> None:
        """Hold a call that is not recorded."""
        if not is_recorded:
            await self.hold()

    async def place(self, *, is_recorded: bool) -> None:
        """Let the team change as it did."""

    async def hold(self) -> None:
        """Say that something is held, and hold the caller until the replay is ended."""
        self.reached.set()
        await anyio.sleep_forever()


async def record_of(journal: Journal, events: Sequence[Event], *texts: Body) -> RunRecord:
    """Return the record of events, with the bodies that a replay needs and some others."""
    record = RunRecord.from_events(events)
    record.bodies = RecordedBodies(await journal.bodies(record.needed_bodies() | {*texts}))
    return record


def replay_of(record: RunRecord, team: Team) -> Run:
    """Return a run that goes by a record, over a journal in memory."""
    return Run(record.run_id, team, MemoryJournal(), Bus(), time.time, RateLimiters(), record)


@asynccontextmanager
async def held_replay(run: Run, observer: HoldingObserver) -> AsyncGenerator[asyncio.Future[RunResult | None]]:
    """Drive a run under an observer until the block ends. What the observer waits for is also its end."""
    run.observe(observer)
    driving = asyncio.ensure_future(run.drive())
    driving.add_done_callback(lambda _: observer.reached.set())
    try:
        yield driving
    finally:
        run.control.interrupt()
        with suppress(TeamwrightError, asyncio.CancelledError):
            await driving


async def end_of_record(run: Run, observer: HoldingObserver, driving: asyncio.Future[RunResult | None]) -> None:
    """Wait until a replay has reached the end of its record."""
    await observer.reached.wait()
    while run.control.state.delivery.is_replaying and not driving.done():
        await anyio.lowlevel.checkpoint()


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
