"""Runs of a team in memory, and what tests read from them."""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult

TASK = "Bring the harbour into order."
RUN_ID = "r"


async def run(team: Team, history: Sequence[Message] = ()) -> tuple[RunResult, list[Event]]:
    """Run a team, and return its result and its events."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, TASK, run_id=RUN_ID, history=history)
    return result, list(await journal.read(RUN_ID))


def speakers(result: RunResult) -> list[str]:
    """The names in the messages of a result."""
    return [message.name for message in result.messages]


def contents(messages: Sequence[Message]) -> list[str]:
    """The texts of messages."""
    return [message.content for message in messages]
