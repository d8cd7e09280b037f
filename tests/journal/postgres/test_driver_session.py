"""The writer keeps its promises while connections break: nothing is lost, recorded twice, or stuck."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import psycopg
import pytest

from teamwright.errors import FencedOut, JournalError, JournalUnavailable, RunIsLive
from teamwright.journal.postgres import connection, driver_connection, driver_session, rows
from teamwright.journal.postgres.connection import Connection, DatabaseAddress, connect
from teamwright.journal.postgres.driver_connection import connect_driver
from teamwright.journal.postgres.driver_session import DriverSession
from teamwright.journal.postgres.journal import PostgresJournal
from teamwright.journal.protocol import Batch
from teamwright.testing.journal import body, commit, commit_all, events
from tests.kit.postgres import schema_url
from tests.kit.postgres_proxy import Proxy
from tests.kit.split_replies import SplitReplies


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[PostgresJournal]:
    journal = PostgresJournal(url)
    await journal.open()
    try:
        yield journal
    finally:
        await journal.close()


def end_driver(server: str, url: str) -> None:
    """End the session that holds the driver lock of the run, as a restart of the server does, and wait for its end."""
    key = DatabaseAddress.parse(url).lock_key("run")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 20000) FROM pg_locks WHERE locktype = 'advisory'"
            " AND ((classid::bigint << 32) | objid::bigint) = %s",
            (key,),
        )


def session_of(journal: PostgresJournal) -> DriverSession:
    assert journal._driver is not None
    return journal._driver


async def turns() -> None:
    """Let tasks proceed that can."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(params=[False, True], ids=["in the queue", "at once"])
def alone(request: pytest.FixtureRequest) -> bool:
    """Whether a run waits for each commit, so that it is sent at once."""
    return request.param


@pytest.fixture
def url(postgres_server: str, tmp_path: Path) -> str:
    return schema_url(postgres_server, tmp_path)


async def test_a_driver_whose_session_ended_connects_again_and_keeps_its_lock(
    postgres_server: str, url: str, alone: bool
) -> None:
    async with opened(url) as one, opened(url) as two, one.drive("run"):
        for number in (1, 2, 3):
            await commit(one, Batch(events("run", [number]), {}, alone))
        end_driver(postgres_server, url)
        await commit(one, Batch(events("run", [4]), body("text"), alone))
        await commit(one, Batch(events("run", [5]), {}, alone))
        assert await two.read("run") == events("run", [1, 2, 3, 4, 5])
        with pytest.raises(RunIsLive):
            async with two.drive("run"):
                pass


async def test_a_commit_at_once_whose_reply_is_lost_is_recorded_once(postgres_server: str, tmp_path: Path) -> None:
    proxy = Proxy(postgres_server, tmp_path)
    async with proxy.running(), opened(schema_url(proxy.url, tmp_path)) as journal, journal.drive("run"):
        for number in (1, 2, 3):
            await commit(journal, Batch(events("run", [number]), {}, alone=True))
        proxy.loses_replies = True
        await commit(journal, Batch(events("run", [4]), {}, alone=True))
        assert not proxy.loses_replies
        await commit(journal, Batch(events("run", [5]), {}, alone=True))
        assert await journal.read("run") == events("run", [1, 2, 3, 4, 5])
        summary = await journal.find("run")
        assert summary is not None
        assert not summary.damage


async def test_batches_that_arrive_during_a_commit_at_once_follow_it_in_order(url: str) -> None:
    async with opened(url) as journal, journal.drive("run"):
        for number in (1, 2, 3):
            await commit(journal, Batch(events("run", [number]), {}, alone=True))
        batches = [Batch(events("run", [number]), {}, alone=True) for number in range(4, 12)]
        assert await commit_all(journal, batches) == [None] * 8
        assert await journal.read("run") == events("run", list(range(1, 12)))


async def test_a_driver_that_was_replaced_is_fenced_out_of_commits_at_once(postgres_server: str, url: str) -> None:
    async with opened(url) as old, opened(url) as new, old.drive("run"):
        for number in (1, 2, 3):
            await commit(old, Batch(events("run", [number]), {}, alone=True))
        await commit(new, Batch(events("run", [4]), {}))  # it writes without the lock, to test the key alone
        with pytest.raises(FencedOut):
            await commit(old, Batch(events("run", [4]), {}, alone=True))
        with pytest.raises(FencedOut):
            await commit(old, Batch(events("run", [5]), {}, alone=True))
        assert await new.read("run") == events("run", [1, 2, 3, 4])


async def test_a_commit_whose_reply_is_lost_is_recorded_once(postgres_server: str, tmp_path: Path) -> None:
    proxy = Proxy(postgres_server, tmp_path)
    async with proxy.running(), opened(schema_url(proxy.url, tmp_path)) as journal, journal.drive("run"):
        await commit(journal, Batch(events("run", [1]), {}))
        proxy.loses_replies = True
        outcomes = await commit_all(journal, [Batch(events("run", [number]), {}) for number in (2, 3, 4)])
        assert outcomes == [None] * 3
        assert not proxy.loses_replies
        assert await journal.read("run") == events("run", [1, 2, 3, 4])


async def test_a_network_that_drops_everything_silently_is_noticed(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    monkeypatch.setattr(driver_connection, "COMMIT_SECONDS", 0.3)
    proxy = Proxy(postgres_server, tmp_path)
    async with proxy.running(), opened(schema_url(proxy.url, tmp_path)) as journal, journal.drive("run"):
        for number in (1, 2, 3):
            await commit(journal, Batch(events("run", [number]), {}, alone))
        proxy.hold()
        pending = asyncio.create_task(commit(journal, Batch(events("run", [4]), {}, alone)))
        await asyncio.sleep(0.5)
        assert not pending.done()
        proxy.release()
        await pending
        assert await journal.read("run") == events("run", [1, 2, 3, 4])


async def test_a_driver_that_was_replaced_while_it_was_cut_off_is_fenced_out(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_connection, "COMMIT_SECONDS", 0.3)
    proxy = Proxy(postgres_server, tmp_path)
    url = schema_url(postgres_server, tmp_path)
    async with proxy.running(), opened(schema_url(proxy.url, tmp_path)) as old, opened(url) as new, old.drive("run"):
        await commit(old, Batch(events("run", [1]), {}))
        proxy.hold()
        end_driver(postgres_server, url)
        async with new.drive("run"):
            await commit(new, Batch(events("run", [2]), {}))
            proxy.release()
            with pytest.raises(FencedOut):
                await commit(old, Batch(events("run", [2]), {}))
            await commit(new, Batch(events("run", [3]), {}))
        assert await new.read("run") == events("run", [1, 2, 3])


async def test_a_process_that_is_silent_for_too_long_loses_its_locks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_connection, "SESSION_SILENCE_SECONDS", 1)
    async with opened(url) as suspended, opened(url) as other, suspended.drive("run"):
        await commit(suspended, Batch(events("run", [1]), {}))
        for _ in range(50):
            if not await other.is_driven("run"):
                break
            await asyncio.sleep(0.1)
        async with other.drive("run"):
            await commit(other, Batch(events("run", [2]), {}))
            with pytest.raises(FencedOut):
                await commit(suspended, Batch(events("run", [2]), {}))


async def test_a_server_that_stays_away_stops_the_runs_of_a_process(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_connection, "COMMIT_SECONDS", 0.2)
    monkeypatch.setattr(driver_connection, "RECONNECT_SECONDS", 0.5)
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1)
    proxy = Proxy(postgres_server, tmp_path)
    async with proxy.running():
        async with opened(schema_url(proxy.url, tmp_path)) as journal, journal.drive("run"):
            await commit(journal, Batch(events("run", [1]), {}))
            proxy.hold()
            batches = [Batch(events("run", [number]), {}) for number in (2, 3)]
            outcomes = await commit_all(journal, batches)
            assert [type(one) for one in outcomes] == [JournalUnavailable] * 2
            proxy.release()
        async with opened(schema_url(proxy.url, tmp_path)) as journal:
            assert await journal.read("run") == events("run", [1])


async def test_commits_whose_replies_arrive_in_parts_block_nothing(postgres_server: str, tmp_path: Path) -> None:
    replies = SplitReplies(postgres_server, tmp_path)
    async with replies.running(), opened(schema_url(replies.url, tmp_path)) as journal, journal.drive("run"):
        replies.split(1)
        for number in range(1, 7):
            await commit(journal, Batch(events("run", [number]), body(f"text {number}"), alone=number % 2 == 0))
        with pytest.raises(FencedOut):
            await commit(journal, Batch(events("run", [6]), {}, alone=True))
        assert await journal.read("run") == events("run", [1, 2, 3, 4, 5, 6])
    assert not replies.is_blocked
    assert replies.parts


async def test_a_lock_whose_reply_is_lost_is_taken_once(postgres_server: str, tmp_path: Path) -> None:
    proxy = Proxy(postgres_server, tmp_path)
    async with proxy.running(), opened(schema_url(proxy.url, tmp_path)) as journal:
        proxy.loses_replies = True
        async with journal.drive("run"):
            assert not proxy.loses_replies
            assert await journal.is_driven("run")
            with pytest.raises(RunIsLive):
                await session_of(journal).lock("run")
        assert not await journal.is_driven("run")


async def test_a_lock_whose_taker_was_cancelled_is_released(postgres_server: str, tmp_path: Path) -> None:
    proxy = Proxy(postgres_server, tmp_path)
    async with proxy.running(), opened(schema_url(proxy.url, tmp_path)) as journal:
        proxy.hold()
        locking = asyncio.create_task(session_of(journal).lock("run"))
        await turns()
        locking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await locking
        proxy.release()
        async with journal.drive("next"):  # its turn comes after what was queued
            assert not await journal.is_driven("run")
        async with journal.drive("run"):
            pass


async def test_a_session_that_is_cancelled_ends(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_connection, "COMMIT_SECONDS", 0.3)
    proxy = Proxy(postgres_server, tmp_path)
    async with proxy.running(), opened(schema_url(proxy.url, tmp_path)) as journal:
        proxy.hold()
        locking = asyncio.create_task(session_of(journal).lock("run"))
        await turns()
        task = session_of(journal)._task
        task.cancel()
        proxy.release()
        async with asyncio.timeout(10):
            await asyncio.wait((task,))
        locking.cancel()


async def test_a_run_whose_commit_is_recorded_goes_on_although_another_of_its_group_was_taken_over(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = asyncio.Event()

    async def connect_late(address: DatabaseAddress, name: str) -> Connection:
        await goes_on.wait()
        return await connect_driver(address, name)

    monkeypatch.setattr(driver_connection, "connect_driver", connect_late)
    proxy = Proxy(postgres_server, tmp_path)
    async with (
        proxy.running(),
        opened(schema_url(proxy.url, tmp_path)) as old,
        opened(schema_url(postgres_server, tmp_path)) as new,
        old.drive("kept"),
        old.drive("run"),
    ):
        for number in (1, 2, 3):
            await commit_all(old, [Batch(events(run, [number]), {}) for run in ("kept", "run")])
        proxy.loses_replies = True
        group = asyncio.create_task(commit_all(old, [Batch(events(run, [4]), {}) for run in ("kept", "run")]))
        while await new.is_driven("run"):  # noqa: ASYNC110 - the server ends the session
            await asyncio.sleep(0.01)
        async with new.drive("run"):
            goes_on.set()
            kept, run = await group
            assert (kept, type(run)) == (None, FencedOut)
            await commit(old, Batch(events("kept", [5]), {}))
            assert await new.read("kept") == events("kept", [1, 2, 3, 4, 5])
            assert await new.read("run") == events("run", [1, 2, 3, 4])


async def test_a_heartbeat_between_a_lost_reply_and_its_repetition_changes_nothing(
    postgres_server: str, tmp_path: Path
) -> None:
    class Late(asyncio.Event):
        """Says that the time was over, once, when what it waits for has just happened."""

        is_late = False

        async def wait(self) -> Literal[True]:
            await super().wait()
            if self.is_late:
                self.is_late = False
                raise TimeoutError
            return True

    proxy = Proxy(postgres_server, tmp_path)
    async with proxy.running(), opened(schema_url(proxy.url, tmp_path)) as journal:
        session_of(journal)._arrived = arrived = Late()
        async with journal.drive("run"):
            for number in (1, 2, 3):
                await commit(journal, Batch(events("run", [number]), {}, alone=True))
            arrived.is_late = proxy.loses_replies = True
            await commit(journal, Batch(events("run", [4]), {}, alone=True))
            assert (arrived.is_late, proxy.loses_replies) == (False, False)
            assert await journal.read("run") == events("run", [1, 2, 3, 4])


async def test_a_commit_that_never_ends_in_time_stops_its_run(
    url: str, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    monkeypatch.setattr(driver_connection, "COMMIT_SECONDS", 0.2)
    monkeypatch.setattr(driver_connection, "RECONNECT_SECONDS", 0.3)
    async with opened(url) as journal, await connect(DatabaseAddress.parse(url)) as other:
        async with journal.drive("run"):
            for number in (1, 2, 3):
                await commit(journal, Batch(events("run", [number]), {}, alone))
            async with other.transaction():
                await other.execute("LOCK TABLE events IN EXCLUSIVE MODE")
                with pytest.raises(JournalUnavailable):
                    await asyncio.wait_for(commit(journal, Batch(events("run", [4]), {}, alone)), 20)
        assert await journal.read("run") == events("run", [1, 2, 3])
        async with journal.drive("run"):
            await commit(journal, Batch(events("run", [4]), {}, alone))


async def test_an_unexpected_error_fails_its_batch_alone(
    url: str, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    async with opened(url) as journal, journal.drive("run"), journal.drive("other"):
        for run in ("run", "other"):
            await commit(journal, Batch(events(run, [1]), {}, alone))
        with monkeypatch.context() as patched:
            patched.setattr(rows, "small_statement", lambda batch, known: {}["unexpected"])
            with pytest.raises(JournalError, match="'run' can't be recorded"):
                await asyncio.wait_for(commit(journal, Batch(events("run", [2]), {}, alone)), 20)
        await commit(journal, Batch(events("other", [2]), {}, alone))


async def test_a_heartbeat_that_fails_does_not_end_the_session(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = asyncio.Event()

    async def fail(connection: Connection) -> None:
        failed.set()
        raise psycopg.errors.QueryCanceled("cancelled by the operator")

    monkeypatch.setattr(driver_session, "HEARTBEAT_SECONDS", 0.01)
    monkeypatch.setattr(driver_session, "_ask_for_nothing", fail)
    async with opened(url) as journal, journal.drive("run"):
        await failed.wait()
        await asyncio.wait_for(commit(journal, Batch(events("run", [1]), {})), 20)


async def test_a_session_whose_event_loop_ends_fails_what_it_commits_no_more(url: str, alone: bool) -> None:
    async with opened(url) as journal:
        async with asyncio.timeout(20), journal.drive("run"):
            await commit(journal, Batch(events("run", [1]), {}))
            task = session_of(journal)._task
            task.cancel()
            await asyncio.wait((task,))
            with pytest.raises(JournalUnavailable, match="event loop"):
                await commit(journal, Batch(events("run", [2]), body("text"), alone))
        with pytest.raises(JournalUnavailable, match="event loop"):
            async with journal.drive("run"):
                pass


def test_a_server_that_is_too_old_is_refused_by_its_version(url: str) -> None:
    address = DatabaseAddress.parse(url)
    connection.check_version(address, connection.LEAST_VERSION)
    with pytest.raises(JournalError, match=r"is on Postgres 13, and Teamwright needs 14 or newer"):
        connection.check_version(address, 13_00_11)
