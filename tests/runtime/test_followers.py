"""A follower of a run that another process drives is woken by the journal, where the journal is notified."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import Journal
from teamwright.runtime import followers as follow
from teamwright.values.events.event import Event
from tests.kit.postgres import postgres_server, schema_url

__all__ = ["postgres_server"]


@pytest.mark.parametrize(
    "wrapped", [False, pytest.param(True, marks=pytest.mark.server)], ids=["plain", "as the server wraps it"]
)
async def test_notifications_of_postgres_wake_a_follower(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrapped: bool
) -> None:
    monkeypatch.setattr(follow, "NOTIFIED_INTERVAL", 50.0)  # no poll can be the reason
    url, goes_on, seen = schema_url(postgres_server, tmp_path), asyncio.Event(), list[int]()

    async def wait(turn: Turn) -> str:
        await goes_on.wait()
        return "done"

    journal: Journal = PostgresJournal(url)
    if wrapped:
        from teamwright.server.frames import RecentBodies

        journal = RecentBodies(journal)
    async with Engine(url) as driver, Engine(journal) as elsewhere:
        handle = await driver.start(Team("t", members=[FunctionAgent("a", wait)]), "go", run_id="r")
        begun = asyncio.Event()

        async def listen() -> None:
            async for item in elsewhere.runs.follow("r"):
                assert isinstance(item, Event)
                seen.append(item.number)
                begun.set()

        listening = asyncio.create_task(listen())
        await begun.wait()
        began = time.monotonic()
        goes_on.set()
        await handle.result()
        await asyncio.wait_for(listening, 20)
        assert time.monotonic() - began < 20
        assert seen == [event.number for event in await driver.journal.read("r")]


async def test_a_follower_learns_at_once_that_a_driver_left_its_run(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "NOTIFIED_INTERVAL", 50.0)
    url, begun = schema_url(postgres_server, tmp_path), asyncio.Event()

    async def wait(turn: Turn) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    async with Engine(url) as driver, Engine(url) as elsewhere:
        handle = await driver.start(Team("t", members=[FunctionAgent("a", wait)]), "go", run_id="r")
        await begun.wait()
        waiting = asyncio.create_task(elsewhere.runs.wait("r"))
        await asyncio.sleep(0.1)
        handle.interrupt()
        assert (await asyncio.wait_for(waiting, 20)).status == "interrupted"
