"""Records cut at any event, as a crash leaves them, and runs resumed from them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import anyio
from msgspec.structs import replace

from teamwright.agents.agent import Agent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch
from teamwright.runtime.engine import Engine
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunStarted
from teamwright.values.turns.results import RunResult

Journal = TypeVar("Journal", bound=MemoryJournal)


async def cut(journal: MemoryJournal, at: int, run_id: str = "r") -> MemoryJournal:
    """Copy the first `at` events of a run and its whole inbox into a new journal."""
    return await cut_into(MemoryJournal(), journal, at, run_id)


async def cut_into(
    copy: Journal, journal: MemoryJournal, at: int, run_id: str = "r", *, letters: bool = True
) -> Journal:
    """Copy the first `at` events of a run and its whole inbox, unless without `letters`, into an empty journal."""
    events = (await journal.read(run_id))[:at]
    copy.append(Batch(events, await journal.bodies(list(journal._bodies))), lambda error: None)
    for item in await journal.inbox(run_id) if letters else ():
        await copy.send(run_id, item.intervention)
    return copy


async def cut_in_format(
    journal: MemoryJournal, format: int, *, at: int | None = None, run_id: str = "r"
) -> MemoryJournal:
    """Copy the first `at` events of a run into a new journal, as a version that records this format."""
    copy = await cut(journal, at or len(await journal.read(run_id)), run_id)
    first, *rest = await copy.read(run_id)
    assert isinstance(first.fact, RunStarted)
    older = MemoryJournal()
    events = [replace(first, fact=first.fact.changed(format=format)), *rest]
    older.append(Batch(events, await journal.bodies(list(journal._bodies))), lambda error: None)
    return older


async def cut_and_resume(
    team: Agent, at: int, journal: MemoryJournal, run_id: str = "r"
) -> tuple[RunResult, list[str]]:
    """Resume a run from the first `at` events of its record; returns its result and the kinds of all its events."""
    copy = await cut(journal, at, run_id)
    async with Engine(copy) as engine:
        with anyio.fail_after(10):
            result = await engine.resume(run_id, team=team)
        return result, [event.kind for event in await copy.read(run_id)]


async def wait_for_question(engine: Engine, run_id: str = "r") -> str:
    """Wait until a live run asks a person, and return the key of the question."""
    async for item in engine.runs.follow(run_id):
        if isinstance(item, Event) and item.kind == "person.asked":
            return item.key
    raise AssertionError("the run ended without a question")


def damage_first_event(file: Path) -> None:
    """Make the first event in a journal file unreadable: that of its oldest run."""
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE events SET data = '{' WHERE position = (SELECT min(position) FROM events)")
