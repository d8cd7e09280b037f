"""Replays in memory: a run is driven from its record, and held where it would do what is not recorded.

Nothing is called, and nothing is written to its journal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel

from teamwright.errors import TeamwrightError
from teamwright.history.record.asks import RecordedBodies
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.budget.rate_limiter import RateLimiters
from teamwright.runtime.event_publisher import Bus
from teamwright.runtime.run import Run
from teamwright.runtime.run_state import ReplayObserver

if TYPE_CHECKING:
    from teamwright.agents.contract.agent import Agent
    from teamwright.agents.contract.effect import Effect
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
