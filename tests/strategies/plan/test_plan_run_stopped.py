"""Every step that began ends once, also where its team is stopped by what is around it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.recorded.runs import Runs
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamStepAssigned, TeamStepCompleted
from teamwright.values.turns.turn import Reply, Turn
from tests.kit.collaboration import facts
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.runs import RUN_ID

Act = Callable[[Runs], Awaitable[object]]


class Stopped:
    """A team in a team, whose member works until it is stopped; another member may end the outer team."""

    def __init__(self, *, ends: bool = False, seconds: float = 60) -> None:
        self.begun, self._ends = asyncio.Event(), ends
        fakes = FakeMembers()
        options: dict[str, Any] = {"steps": [{"id": "x"}], "timeout": 60}
        inner = Team("inner", members=[fakes.member("x", self._work)], strategy="plan", options=options)
        options = {"steps": [{"id": "a"}, {"id": "inner"}], "timeout": seconds}
        self.team = Team("t", members=[fakes.member("a", self._end), inner], strategy="plan", options=options)

    async def _work(self, turn: Turn) -> str:
        self.begun.set()
        await asyncio.Event().wait()
        return ""

    async def _end(self, turn: Turn) -> Reply | str:
        await self.begun.wait()
        return Reply.of("a", "Enough.", signal="terminate") if self._ends else "a is done"


async def nothing(runs: Runs) -> None:
    """Let the team be."""


ACTS: dict[str, tuple[dict[str, Any], Act]] = {
    "a member ends the team": ({"ends": True}, nothing),
    "a person stops the step": ({}, lambda runs: runs.stop_step(RUN_ID, "inner")),
    "a person cancels the run": ({}, lambda runs: runs.cancel(RUN_ID)),
    "the time is over": ({"seconds": 1}, nothing),
}


def states(events: list[Event]) -> dict[str, str]:
    begun, ended = (Counter(one.step for one in facts(events, kind)) for kind in (TeamStepAssigned, TeamStepCompleted))
    assert begun == ended == Counter(("a", "inner", "x"))
    return {one.step: one.state for one in facts(events, TeamStepCompleted)}


@pytest.mark.parametrize(("how", "act"), ACTS.values(), ids=ACTS)
async def test_steps_of_a_team_that_is_stopped_from_outside_end_once(how: dict[str, Any], act: Act) -> None:
    stopped, journal = Stopped(**how), MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(stopped.team, "Go.", run_id=RUN_ID)
        with anyio.fail_after(20):
            await stopped.begun.wait()
            await anyio.sleep(0.05)
            await act(engine.runs)
            result = await handle.result()
    events = list(await journal.read(RUN_ID))
    assert states(events)["x"] == "cancelled"
    last = max(event.number for event in events if isinstance(event.fact, TeamStepCompleted) and event.fact.step == "x")
    for at in range(last - 1, len(events)):
        again, _ = await cut_and_resume(stopped.team, at, journal)
        assert again.status == result.status


async def test_a_run_that_pauses_ends_no_step() -> None:
    stopped, journal = Stopped(), MemoryJournal()
    async with Engine(journal) as engine:
        await engine.start(stopped.team, "Go.", run_id=RUN_ID)
        await stopped.begun.wait()
    found = facts(list(await journal.read(RUN_ID)), TeamStepCompleted)
    assert not [one for one in found if one.step in ("x", "inner")]
