"""Runs that a test intervenes in: a member waits in its turn until the test has done so."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from teamwright import Engine, Team
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.event import Event
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Turn

Act = Callable[[Engine], Awaitable[object]]
"""What the test does to the run `r`."""


class Gate:
    """The turn of the member `a`, which waits until the test lets it go on."""

    def __init__(self) -> None:
        self.entered, self.open = anyio.Event(), anyio.Event()

    async def answer(self, turn: Turn) -> str:
        """Wait, then answer."""
        self.entered.set()
        await self.open.wait()
        return "a is done"


async def run_steered(
    team: Team, gate: Gate, act: Act, journal: MemoryJournal, task: str = "go"
) -> tuple[RunResult, list[Event]]:
    """Run a team, and act while a member waits at the gate; returns the result and the events."""
    async with Engine(journal) as engine:
        handle = await engine.start(team, task, run_id="r")
        await gate.entered.wait()
        try:
            await act(engine)
        finally:
            gate.open.set()
        with anyio.fail_after(10):
            result = await handle.result()
    return result, await journal.read("r")
