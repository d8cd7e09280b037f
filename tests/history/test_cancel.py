"""A run without a driver is cancelled from its record alone, and keeps its messages."""

from __future__ import annotations

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.journal.in_memory_journal import MemoryJournal
from tests.kit.members import FakeMembers
from tests.kit.records import cut, cut_and_resume


async def hang(turn: Turn) -> str:
    await anyio.sleep(60)
    return "never"


def splitting() -> Team:
    """A team whose splitter is a team, of which one member has spoken and the other never does."""
    splitter = Team("splitter", members=[FakeMembers().member("a", "one, two"), FunctionAgent("b", hang)])
    worker = FakeMembers().member("worker")
    return Team("t", members=[worker], helpers=[splitter], strategy="fan_out", options={"splitter": "splitter"})


async def cancelled() -> MemoryJournal:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        handle = await engine.start(splitting(), "go", run_id="r")
        async for event in engine.runs.follow("r"):
            if getattr(event, "key", "") == "t/split/step-2":
                break
        await engine.runs.cancel("r")
        assert (await handle.result()).messages == ()
    return journal


@pytest.mark.parametrize("how", ["resumed", "closed"])
async def test_what_was_said_to_coordinate_is_no_result_of_a_cancelled_team(how: str) -> None:
    journal = await cancelled()
    events = await journal.read("r")
    begun = next(event.number for event in events if event.key == "t/split/step-2")
    for at in range(begun, len(events)):
        if how == "resumed":
            result, _ = await cut_and_resume(splitting(), at, journal)
        else:
            copy = await cut(journal, at)
            async with Engine(copy) as engine:
                result = await engine.runs.cancel("r")
        assert (result.status, result.messages, result.output) == ("cancelled", (), None)
