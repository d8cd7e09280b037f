import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import psycopg
import pytest

from teamwright.errors import UsageError
from teamwright.journal.postgres.connection import POLL_SECONDS, DatabaseAddress, Notifications
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import Batch
from teamwright.testing.journal import commit, events
from teamwright.values.people import Pause
from tests.kit.postgres import schema_url


def test_the_schema_is_taken_from_the_address() -> None:
    address = DatabaseAddress.parse("postgresql://ada:pw@db:5433/teams?schema=team_a&sslmode=require")
    assert (address.schema, address.url) == ("team_a", "postgresql://ada:pw@db:5433/teams?sslmode=require")
    assert DatabaseAddress.parse("postgres://db/teams").schema == "teamwright"


@pytest.mark.parametrize(
    "url", ["postgresql:///teams", "postgresql:///teams?host=%2Fvar%2Frun", "postgresql://db/t?sslrootcert=a%20b"]
)
def test_the_rest_of_the_address_stays_as_it_is(url: str) -> None:
    assert DatabaseAddress.parse(url).url == url
    assert DatabaseAddress.parse(f"{url}{'&' if '?' in url else '?'}schema=team_a").url == url


@pytest.mark.parametrize("password", ["pw", "p#w", "p/w"])
def test_messages_show_no_password(password: str) -> None:
    shown = DatabaseAddress.parse(f"postgresql://ada:{password}@db:5433/teams?sslmode=require").shown
    assert shown == "postgresql://db:5433/teams?schema=teamwright"


def test_messages_show_the_folder_of_a_socket() -> None:
    shown = DatabaseAddress.parse("postgresql://ada:pw@/teams?host=%2Fvar%2Frun").shown
    assert shown == "postgresql:///var/run/teams?schema=teamwright"


@pytest.mark.parametrize("schema", ["", "a b", "A", 'x"; DROP TABLE runs; --', "a" * 60])
def test_a_schema_that_is_no_plain_name_is_refused(schema: str) -> None:
    with pytest.raises(UsageError, match="schema of a journal"):
        DatabaseAddress.parse(f"postgresql://db/teams?schema={schema}")


def test_locks_of_two_schemas_differ() -> None:
    one, two = (DatabaseAddress.parse(f"postgresql://db/teams?schema={name}") for name in ("a", "b"))
    assert one.lock_key("run") == one.lock_key("run") != two.lock_key("run")


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

    opened = Notifications(DatabaseAddress.parse("postgresql://db/teams"), "me", announce)
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
    monkeypatch.setattr("teamwright.journal.postgres.connection.LISTEN_AGAIN_SECONDS", 0.05)
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
        assert time.monotonic() - began < POLL_SECONDS
