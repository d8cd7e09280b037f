import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psycopg
import pytest

from teamwright.journal.postgres import notifications
from teamwright.journal.postgres.address import DatabaseAddress
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import Batch
from teamwright.testing.journal import commit, events
from teamwright.values.people.interventions import Pause
from tests.kit.postgres import schema_url


@asynccontextmanager
async def pair(url: str) -> AsyncGenerator[tuple[PostgresJournal, PostgresJournal]]:
    one, two = PostgresJournal(url), PostgresJournal(url)
    await one.open()
    await two.open()
    try:
        yield one, two
    finally:
        await two.close()
        await one.close()


async def test_a_process_hears_of_many_commits_by_few_announcements(postgres_server: str, tmp_path: Path) -> None:
    async with pair(schema_url(postgres_server, tmp_path)) as (one, two):
        heard, has_heard = 0, anyio.Event()

        async def listen() -> None:
            nonlocal heard
            while True:
                await two.changed(0.01)
                heard += 1
                has_heard.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listen)
            for number in range(1, 51):
                await commit(one, Batch(events("run", [number]), {}))
            with anyio.fail_after(4):  # before it would look for itself
                await has_heard.wait()
            tasks.cancel_scope.cancel()
        assert heard < 50


async def test_closing_waits_for_an_announcement_that_is_being_sent() -> None:
    sending, goes_on, sent = anyio.Event(), anyio.Event(), list[str]()

    async def announce(channel: str, payload: str) -> None:
        sending.set()
        await goes_on.wait()
        sent.append(payload)

    opened = notifications.Notifications(DatabaseAddress.parse("postgresql://db/teams"), "me", announce)
    opened.announce(["run"])
    await sending.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(opened.close)
        await anyio.wait_all_tasks_blocked()
        goes_on.set()
    assert sent == ["me run"]


async def test_a_listener_that_lost_its_connection_hears_again(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "RECONNECT_SECONDS", 0.05)
    async with pair(schema_url(postgres_server, tmp_path)) as (one, two):
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                (f"{two._name}-listener",),
            )
        with anyio.fail_after(4):
            await two.changed(0.01)  # what may have been missed
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(two.changed, 0.01)
            await one.send("run", Pause())
        assert time.monotonic() - began < notifications.POLL_SECONDS
