"""A journal looks for what other processes have sent, at no cost to the runs that it records."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite import commits
from teamwright.journal.sqlite.commits import Writer
from teamwright.journal.sqlite.database import Database
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import RecordConformance, commit, event
from teamwright.values.people import Pause


class Journals(RecordConformance):
    """Journals in SQLite for a test of the conformance suite."""

    __test__ = False

    def make(self, folder: Path) -> SqliteJournal:
        return SqliteJournal(folder / "journal.db")


class Watch:
    """Counts the polls of a journal for changes, the changes found, and the switches to other threads."""

    polls = changes = switches = 0

    async def until_found(self) -> None:
        with anyio.fail_after(5):
            while not self.changes:  # noqa: ASYNC110 - a poll has no event
                await anyio.sleep(0.001)

    async def polled(self, times: int) -> None:
        begun = self.polls
        with anyio.fail_after(5):
            while self.polls < begun + times:  # noqa: ASYNC110 - a poll has no event
                await anyio.sleep(0.001)


@asynccontextmanager
async def watched(path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[tuple[SqliteJournal, Watch]]:
    journal, watch = SqliteJournal(path), Watch()
    poll, read, queue = Database.foreign_changes, anyio.to_thread.run_sync, Writer._enqueue

    def count_poll(database: Database) -> int:
        watch.polls += 1
        return poll(database)

    def count_read(*given: object, **options: object) -> object:
        watch.switches += 1
        return read(*given, **options)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]

    def count_queued(writer: Writer, item: object) -> None:
        watch.switches += 1
        queue(writer, item)  # pyright: ignore[reportArgumentType]

    async def look() -> None:
        await journal.changed(0.001)  # the first call reports what happened before
        while True:
            await journal.changed(0.001)
            watch.changes += 1

    await journal.open()
    try:
        async with anyio.create_task_group() as tasks:
            with monkeypatch.context() as patched:
                patched.setattr(Database, "foreign_changes", count_poll)
                patched.setattr(anyio.to_thread, "run_sync", count_read)
                patched.setattr(Writer, "_enqueue", count_queued)
                tasks.start_soon(look)
                await watch.polled(1)
                yield journal, watch
                tasks.cancel_scope.cancel()
    finally:
        await journal.close()


async def test_a_poll_for_changes_switches_to_no_other_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(tmp_path / "journal.db", monkeypatch) as (_, watch):
        before = watch.switches
        await watch.polled(5)
        assert (watch.changes, watch.switches) == (0, before)


async def test_own_commits_are_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(tmp_path / "journal.db", monkeypatch) as (journal, watch), journal.drive("run"):
        for number in range(1, 6):
            await commit(journal, Batch([event("run", number)], {}))
            await watch.polled(2)
        assert watch.changes == 0


async def test_what_is_sent_here_is_a_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(tmp_path / "journal.db", monkeypatch) as (journal, watch):
        await journal.send("run", Pause())
        await watch.until_found()


async def test_a_commit_elsewhere_between_two_own_ones_is_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SqliteJournal(tmp_path / "journal.db")
    async with watched(tmp_path / "journal.db", monkeypatch) as (journal, watch), journal.drive("run"):
        await other.open()
        await commit(journal, Batch([event("run", 1)], {}))
        await watch.polled(2)
        assert watch.changes == 0
        await other.send("run", Pause())
        await commit(journal, Batch([event("run", 2)], {}))
        await watch.until_found()
        await other.close()


async def test_a_poll_waits_for_what_the_writer_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watched(tmp_path / "journal.db", monkeypatch) as (journal, watch), journal.drive("run"):
        for number in range(1, 200):
            journal.append(Batch([event("run", number)], {}), lambda _: None)
        await watch.polled(3)
        assert watch.changes == 0
        assert len(await journal.read("run")) == 199


def test_a_commit_in_place_is_reported_after_those_of_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "QUICK", 60.0)  # however slow the disk, a batch that is alone is committed in place
    Journals().test_a_batch_that_is_alone_is_reported_after_those_given_before_it(tmp_path)
