"""A database that loses what it had confirmed: nothing is lost where we can prevent it, and no gap is ever written."""

import asyncio
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from teamwright.errors import EventsLost, FencedOut
from teamwright.journal.postgres import driver_session
from teamwright.journal.postgres.connection import DatabaseAddress, connect
from teamwright.journal.protocol import Batch
from teamwright.testing.journal import body, commit, commit_all, event, events
from tests.journal.postgres.test_driver_session import end_driver, opened
from tests.kit.postgres import schema_url
from tests.kit.postgres_restart import OwnPostgres


@pytest.fixture(params=[False, True], ids=["in the queue", "at once"])
def alone(request: pytest.FixtureRequest) -> bool:
    """Whether a run waits for each commit, so that it is sent at once."""
    return request.param


@pytest.fixture
def url(postgres_server: str, tmp_path: Path) -> str:
    return schema_url(postgres_server, tmp_path)


@pytest.fixture
def careless() -> Generator[OwnPostgres]:
    """A server that confirms commits before they are on its disk, and writes them there seldom."""
    server = OwnPostgres()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_commit = off")
        connection.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        connection.execute("ALTER SYSTEM SET wal_writer_flush_after = 0")
        connection.execute("SELECT pg_reload_conf()")
    try:
        yield server
    finally:
        server.close()


def forget(url: str, after: int, run_id: str = "run") -> None:
    """Let the database lose the newest events of a run, as one does that was replaced by a lagging replica."""
    address = DatabaseAddress.parse(url)
    with psycopg.connect(address.url, autocommit=True) as connection:
        statement = f"DELETE FROM {address.schema}.events WHERE run = %s AND number > %s"
        connection.execute(statement.encode(), (run_id, after))


async def test_what_was_confirmed_survives_the_crash_of_a_server_that_confirms_too_early(
    careless: OwnPostgres, alone: bool
) -> None:
    async with opened(careless.url) as journal, journal.drive("run"):
        for number in range(1, 21):
            await commit(journal, Batch(events("run", [number]), body(f"text {number}"), alone))
        await asyncio.to_thread(careless.crash)
        await asyncio.to_thread(careless.start)
        await commit(journal, Batch(events("run", [21]), {}, alone))
        assert await journal.read("run") == events("run", list(range(1, 22)))


@pytest.mark.parametrize(("setting", "kept"), [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", None)])
async def test_commits_wait_for_the_disk_whatever_the_database_says_and_longer_where_it_says_so(
    careless: OwnPostgres, setting: str, kept: str | None
) -> None:
    with psycopg.connect(careless.url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE postgres SET synchronous_commit = {setting}".encode())
    async with opened(careless.url) as journal, await connect(journal.address) as other:
        in_pool = await journal._pool.use(lambda connection: connection.execute("SHOW synchronous_commit"))
        for cursor in (await other.execute("SHOW synchronous_commit"), in_pool):
            assert await cursor.fetchone() == (kept or setting,)


async def test_a_gap_is_never_written(url: str, alone: bool) -> None:
    async with opened(url) as journal, journal.drive("run"):
        for number in range(1, 7):
            await commit(journal, Batch(events("run", [number]), {}, alone))
        forget(url, after=3)
        with pytest.raises(EventsLost, match=r"event 6 of run 'run', .* runs resume run"):
            await commit(journal, Batch(events("run", [7]), body("text"), alone))
        with pytest.raises(EventsLost):
            await commit(journal, Batch(events("run", [8]), {}, alone))
        assert await journal.read("run") == events("run", [1, 2, 3])


async def test_a_gap_of_one_run_leaves_the_others_of_its_commit_alone(url: str) -> None:
    async with opened(url) as journal, journal.drive("kept"), journal.drive("run"):
        for number in (1, 2, 3):
            await commit_all(journal, [Batch(events(run, [number]), {}) for run in ("kept", "run")])
        forget(url, after=2)
        batches = [Batch(events(run, [number]), {}) for run in ("kept", "run") for number in (4, 5)]
        outcomes = await commit_all(journal, batches)
        assert [type(one) for one in outcomes] == [type(None), type(None), EventsLost, EventsLost]
        assert await journal.read("kept") == events("kept", [1, 2, 3, 4, 5])
        assert await journal.read("run") == events("run", [1, 2])


async def test_a_driver_that_reconnects_and_finds_fewer_events_stops_before_its_next_write(
    postgres_server: str, url: str, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_session, "HEARTBEAT_SECONDS", 0.05)
    async with opened(url) as journal, journal.drive("run"), journal.drive("other"):
        for run_id in ("run", "other"):
            for number in range(1, 7):
                await commit(journal, Batch(events(run_id, [number]), {}, alone))
        forget(url, after=4)
        end_driver(postgres_server, url)
        driver = journal._driver
        assert driver is not None
        while not driver._failed:  # noqa: ASYNC110 - the heartbeat connects again
            await asyncio.sleep(0.01)
        assert [(run_id, type(error)) for run_id, error in driver._failed.items()] == [("run", EventsLost)]
        await commit(journal, Batch(events("other", [7]), {}, alone))


async def test_other_events_in_the_place_of_lost_ones_are_no_ground_to_write_on(
    postgres_server: str, url: str, alone: bool
) -> None:
    async with opened(url) as journal, opened(url) as other, journal.drive("run"):
        for number in range(1, 5):
            await commit(journal, Batch(events("run", [number]), {}, alone))
        forget(url, after=3)
        await commit(other, Batch([event("run", 4, time=1_800_000_000.0)], {}))
        end_driver(postgres_server, url)
        with pytest.raises((EventsLost, FencedOut)):
            await commit(journal, Batch(events("run", [5]), {}, alone))
        assert [one.number for one in await journal.read("run")] == [1, 2, 3, 4]


async def test_a_run_whose_events_were_lost_goes_on_from_its_record_when_it_is_driven_again(url: str) -> None:
    async with opened(url) as journal:
        async with journal.drive("run"):
            for number in range(1, 5):
                await commit(journal, Batch(events("run", [number]), {}))
            forget(url, after=2)
            with pytest.raises(EventsLost):
                await commit(journal, Batch(events("run", [5]), {}))
        async with journal.drive("run"):
            await commit(journal, Batch(events("run", [3]), {}))
        assert await journal.read("run") == events("run", [1, 2, 3])
