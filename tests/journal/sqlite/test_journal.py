import asyncio
import gc
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import copyfile

import anyio
import pytest

from teamwright.errors import (
    FencedOut,
    JournalCorrupt,
    JournalError,
    JournalUnavailable,
    RunIsLive,
)
from teamwright.journal.protocol import Batch
from teamwright.journal.sqlite.commits import Committer
from teamwright.journal.sqlite.database import Database
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.testing.journal import JournalConformance, body, commit, commit_all, event, events
from teamwright.values.events.agent import AgentReturned, Body
from teamwright.values.events.run import Custom
from teamwright.values.people import Pause
from teamwright.values.turns.messages import digest
from teamwright.values.usage_and_prices import Usage
from tests.profiles import sampled


class TestConformance(JournalConformance):
    def make(self, folder: Path) -> SqliteJournal:
        return SqliteJournal(folder / "journal.db")


@asynccontextmanager
async def opened(path: Path, busy_timeout: float = 10.0) -> AsyncGenerator[SqliteJournal]:
    journal = SqliteJournal(path, busy_timeout=busy_timeout)
    await journal.open()
    try:
        yield journal
    finally:
        await journal.close()


def in_child(work: Callable[[], None]) -> int:
    """Run something in a forked child and return its pid; the child ends without any clean-up of its parent's."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - told by the exit code
        os.write(2, f"{error!r}\n".encode())
        os._exit(1)
    os._exit(0)


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def test_what_queues_up_is_committed_as_one_group(tmp_path: Path) -> None:
    groups: list[int] = []

    class Counting(Committer):
        def commit_group(self, batches: Sequence[Batch]) -> Sequence[BaseException | None]:
            groups.append(len(batches))
            return super().commit_group(batches)

    journal = SqliteJournal(tmp_path / "journal.db")
    journal._new_committer = Counting
    await journal.open()
    await commit_all(journal, [Batch(events("run", [number]), {}) for number in range(1, 201)])
    await journal.close()
    assert sum(groups) == 200
    assert len(groups) < 50


class WhereCommitted(SqliteJournal):
    """Notes for each commit whether it was made in the loop's thread."""

    def __init__(self, path: Path, **more: float) -> None:
        super().__init__(path, **more)
        self.here: list[bool] = []
        here = self.here

        class Noting(Committer):
            def commit(self, batches: Sequence[Batch]) -> None:
                super().commit(batches)
                here.append(threading.current_thread() is threading.main_thread())

        self._new_committer = Noting


async def alone(journal: SqliteJournal, *numbers: int) -> None:
    """Commit events one by one, each as the only thing that its run waits for."""
    for number in numbers:
        await commit(journal, Batch(events("run", [number]), {}, alone=True))


async def test_a_quick_commit_is_made_in_place_for_a_run_that_has_nothing_else_to_do(tmp_path: Path) -> None:
    journal = WhereCommitted(tmp_path / "journal.db")
    await journal.open()
    async with journal.drive("run"):
        await alone(journal, *range(1, 40))
        await commit(journal, Batch(events("run", [40]), {}))
        await journal.send("run", Pause())
        await alone(journal, 41)
    assert not journal.here[0]  # their speed is not known yet
    assert not journal.here[39]
    assert [one.number for one in await journal.read("run")] == list(range(1, 42))
    await journal.close()


async def test_a_commit_is_not_made_in_place_where_it_would_block_others(tmp_path: Path) -> None:
    journal = WhereCommitted(tmp_path / "journal.db")
    await journal.open()
    async with journal.drive("run"):
        await alone(journal, *range(1, 20))
        journal.here.clear()
        await commit(journal, Batch(events("run", range(20, 120)), {}, alone=True))  # too large
        async with journal.drive("other"):
            await alone(journal, 120)  # another run needs the loop
        assert journal.here == [False, False]
        other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        outcomes: list[BaseException | None] = []
        journal.append(Batch(events("run", [121]), {}, alone=True), outcomes.append)
        assert outcomes == []  # it waits in the thread for the current writer
        other.execute("COMMIT")
        other.close()
        await alone(journal, 122)
        assert outcomes == [None]
    await journal.close()


async def test_after_a_lost_batch_nothing_is_committed_in_place(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        async with journal.drive("run"):
            await alone(journal, *range(1, 20))
            for _ in range(2):
                with pytest.raises(FencedOut):
                    await alone(journal, 5)
            with pytest.raises(FencedOut):
                await alone(journal, 20)
        assert len(await journal.read("run")) == 19


async def test_the_loop_continues_while_the_database_is_busy(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        outcomes: list[BaseException | None] = []
        began = time.perf_counter()
        journal.append(Batch(events("run", [1]), {}), outcomes.append)
        assert await journal.read("run") == []
        assert time.perf_counter() - began < 5
        assert outcomes == []
        other.execute("COMMIT")
        other.close()
        await commit(journal, Batch(events("run", [2]), {}))
        assert outcomes == [None]


async def test_a_locked_database_is_reported_after_the_timeout(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db", busy_timeout=0.05) as journal:
        await commit(journal, Batch(events("run", [1]), {}))
        other = sqlite3.connect(tmp_path / "journal.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(JournalUnavailable, match="another process has locked it"):
            await commit(journal, Batch(events("run", [2]), {}))
        with pytest.raises(JournalUnavailable, match="another process has locked it"):
            await journal.send("run", Pause())
        other.execute("ROLLBACK")
        other.close()
        with pytest.raises(JournalUnavailable, match="another process has locked it"):
            await commit(journal, Batch(events("run", [3]), {}))
        assert await journal.read("run") == events("run", [1])
        async with journal.drive("run"):
            await commit(journal, Batch(events("run", [2]), {}))


async def test_a_full_disk_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        await commit(journal, Batch(events("run", [1]), body("small")))
        writer = journal._database.writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(JournalUnavailable, match="the disk is full"):
            await commit(journal, Batch(events("run", [2]), body("large" * 20_000)))
        with pytest.raises(JournalUnavailable, match="the disk is full"):
            await commit(journal, Batch(events("run", [3]), {}))
        assert await journal.read("run") == events("run", [1])
        assert await journal.bodies(body("small")) == body("small")
        writer.execute("PRAGMA max_page_count = 1000000")
        async with journal.drive("run"):
            await commit(journal, Batch(events("run", [2]), {}))
    async with opened(tmp_path / "journal.db") as journal:
        assert await journal.read("run") == events("run", [1, 2])


def test_a_disk_that_takes_no_more_bytes_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "journal.db"

    async def write() -> None:
        async with opened(path) as journal:
            await commit(journal, Batch(events("run", [1, 2]), body("small")))
            size = Path(f"{path}-wal").stat().st_size
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10_000, size + 10_000))
            for number in (3, 4):
                with pytest.raises(JournalUnavailable, match="what was recorded before is safe"):
                    await commit(journal, Batch(events("run", [number]), body("large" * 20_000)))
            assert await journal.read("run") == events("run", [1, 2])

    async def check() -> None:
        async with opened(path) as journal:
            assert await journal.read("run") == events("run", [1, 2])
            assert await journal.bodies(body("small")) == body("small")
            await commit(journal, Batch(events("run", [3]), body("large" * 20_000)))

    assert exit_code(in_child(lambda: anyio.run(write))) == 0
    anyio.run(check)


async def test_a_run_that_another_process_drove_in_between_is_summed_up_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    returned = AgentReturned(body=digest("b"), usage=Usage(input_tokens=1))
    async with opened(path) as ours, opened(path) as theirs:
        for number, journal in enumerate((ours, theirs, ours, theirs, theirs, ours), start=1):
            async with journal.drive("run"):
                await commit(journal, Batch([event("run", number, returned)], {}))
        for journal in (ours, theirs):
            run = await journal.find("run")
            assert run is not None
            assert run.total_tokens == 6


async def test_a_run_that_another_process_deleted_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as ours, opened(path) as theirs:
        await commit(ours, Batch(events("other", [1]), {}))
        await commit(ours, Batch(events("run", [1]), {}))
        await theirs.delete(["run"])
        await commit(theirs, Batch(events("third", [1]), {}))
        await commit(ours, Batch(events("run", [1]), {}))
        for run in ("other", "run", "third"):
            assert await theirs.read(run) == events(run, [1])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_journal_in_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "journal.db", Path("/dev/full/journal.db"), Path("/proc/journal.db")):
        with pytest.raises(JournalUnavailable, match="TEAMWRIGHT_HOME"):
            await SqliteJournal(path).open()


async def test_a_read_only_database_is_reported(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        await commit(journal, Batch(events("run", [1]), {}))
        journal._database.writer.execute("PRAGMA query_only = ON")
        with pytest.raises(JournalUnavailable, match="read-only"):
            await commit(journal, Batch(events("run", [2]), {}))
        assert await journal.read("run") == events("run", [1])


@pytest.mark.parametrize("content", [b"not a database at all" * 300, b"SQLite format 3\x00" + b"\xff" * 5000])
async def test_a_file_that_is_no_database_is_reported_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    with pytest.raises(JournalCorrupt, match="move the file away"):
        await SqliteJournal(path).open()
    assert path.read_bytes() == content


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE bookmarks (url TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(JournalCorrupt, match="another program"):
        await SqliteJournal(path).open()
    assert path.read_bytes() == before


async def test_overwritten_pages_are_reported_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as journal:
        await commit_all(journal, [Batch(events("run", [number]), {}) for number in range(1, 2001)])
    with path.open("r+b") as file:
        file.seek(4096 * 10)
        file.write(b"\xee" * 4096 * 20)
    async with opened(path) as journal:
        with pytest.raises(JournalCorrupt, match="restore a backup"):
            await journal.read("run")
        assert await journal.read("other") == []


async def test_text_that_is_no_unicode_fails_its_batch_alone(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        bad = Batch([event("bad", 1, Custom(domain="d", name="\ud800"))], {})
        good = Batch(events("good", [1]), {})
        refusal, none = await commit_all(journal, [bad, good])
        assert isinstance(refusal, JournalError)
        assert "can't be recorded" in str(refusal)
        assert none is None
        assert await journal.read("bad") == []


async def test_a_callback_that_fails_does_not_keep_others_waiting(tmp_path: Path) -> None:
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(str(context["exception"])))

    def broken(outcome: BaseException | None) -> None:
        raise RuntimeError("a mistake")

    async with opened(tmp_path / "journal.db") as journal:
        journal.append(Batch(events("run", [1]), {}), broken)
        await commit(journal, Batch(events("run", [2]), {}))
    assert heard == ["a mistake"]


async def test_a_journal_that_is_not_open_says_so(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    with pytest.raises(JournalUnavailable, match="not open"):
        await journal.read("run")
    with pytest.raises(JournalUnavailable, match="not open"):
        journal.append(Batch([], {}), lambda _: None)
    await journal.close()


async def test_a_cancelled_wait_does_not_undo_a_letter(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        with anyio.move_on_after(0):
            await journal.send("run", Pause())
        await commit(journal, Batch(events("run", [1]), {}))
        assert len(await journal.inbox("run")) <= 1


async def test_deleting_shortens_the_file(tmp_path: Path) -> None:  # law 10
    path = tmp_path / "journal.db"
    kept: dict[Body, str] = {}
    async with opened(path) as journal:
        for run in ("gone", "kept"):
            texts = {one: text for number in range(500) for one, text in body(f"{run} {number}" * 50).items()}
            returned = [event(run, number, AgentReturned(body=one)) for number, one in enumerate(texts, start=1)]
            await commit(journal, Batch(returned, texts))
            kept = texts
        await journal.delete([])
        before = path.stat().st_size
        freed = await journal.delete(["gone"])
        assert freed > before * 0.4
        assert path.stat().st_size == before - freed
        assert not Path(f"{path}-wal").stat().st_size
        assert await journal.bodies(kept) == kept


async def test_the_log_of_a_run_is_long_enough_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    log = Path(f"{path}-wal")
    async with opened(path) as journal:
        async with journal.drive("run"):
            await commit(journal, Batch(events("run", [1]), {}))
            size = log.stat().st_size
            for number in range(2, 200):
                await commit(journal, Batch(events("run", [number]), body(f"{number}" * 200)))
            assert log.stat().st_size == size
        async with journal.drive("other"):
            await commit(journal, Batch(events("other", [1]), {}))
        assert log.stat().st_size == size
        copy = tmp_path / "crashed.db"
        for ending in ("", "-wal"):
            copyfile(f"{path}{ending}", f"{copy}{ending}")
    async with opened(copy) as journal:
        assert len(await journal.read("run")) == 199


async def test_a_log_that_cannot_be_made_longer_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as journal:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        size = Path(f"{path}-wal").stat().st_size
        async with journal.drive("run"):
            await journal._writer.call(lambda: None)  # by now it has been tried
            assert Path(f"{path}-wal").stat().st_size == size
            other.execute("COMMIT")
            await commit(journal, Batch(events("run", [1]), {}))
        other.close()
        assert await journal.read("run") == events("run", [1])


async def test_size_grows_linearly_with_turns(tmp_path: Path) -> None:  # law 10
    sizes: list[int] = []
    for turns in (250, 500, 1000):
        path = tmp_path / f"{turns}.db"
        async with opened(path) as journal:
            for turn in range(turns):
                texts = body(f"{turn:08}" * 62)
                journal.append(Batch(events("run", range(4 * turn + 1, 4 * turn + 5)), texts), lambda _: None)
        sizes.append(path.stat().st_size)
    assert sizes[2] - sizes[1] < 2.2 * (sizes[1] - sizes[0])
    assert sizes[2] < 2_000_000


@pytest.mark.parametrize("every", [1, 3, 50])
async def test_bodies_are_found_whether_they_are_adjacent_or_far_apart(tmp_path: Path, every: int) -> None:
    texts = {one: text for number in range(3000) for one, text in body(f"text {number}").items()}
    async with opened(tmp_path / "journal.db") as journal:
        await commit(journal, Batch(events("run", [1]), texts))
        wanted = dict(list(texts.items())[::every])
        assert await journal.bodies(wanted) == wanted
        with pytest.raises(JournalCorrupt):
            await journal.bodies({*wanted, digest("never kept")})


async def test_many_bodies_of_one_text_take_the_space_of_one(tmp_path: Path) -> None:  # law 10
    path = tmp_path / "journal.db"
    async with opened(path) as journal:
        for number in range(1, 101):
            await commit(journal, Batch(events("run", [number]), body("x" * 100_000)))
    assert path.stat().st_size < 300_000


def test_a_driver_in_another_process_is_seen_and_its_death_frees_the_run(tmp_path: Path) -> None:
    ready, held = os.pipe()

    async def drive() -> None:
        async with opened(tmp_path / "journal.db") as journal, journal.drive("run"):
            os.write(held, b"!")
            await anyio.sleep(60)

    async def check() -> None:
        async with opened(tmp_path / "journal.db") as journal:
            assert await journal.is_driven("run")
            with pytest.raises(RunIsLive, match="living process"):
                async with journal.drive("run"):
                    pass
            with pytest.raises(RunIsLive):
                await journal.delete(["run"])
            os.kill(pid, signal.SIGKILL)
            assert exit_code(pid) == -signal.SIGKILL
            assert not await journal.is_driven("run")
            async with journal.drive("run"):
                assert await journal.is_driven("run")

    pid = in_child(lambda: anyio.run(drive))
    os.read(ready, 1)
    anyio.run(check)
    os.close(ready)
    os.close(held)


async def test_two_drivers_of_one_run_lose_nothing_and_one_is_fenced_out(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with opened(path) as ours, opened(path) as theirs:
        await commit(ours, Batch(events("run", [1]), {}))
        await commit(theirs, Batch(events("run", [2, 3]), body("theirs")))
        with pytest.raises(FencedOut, match="runs show run --follow"):
            await commit(ours, Batch(events("run", [2]), {}))
        assert await theirs.read("run") == events("run", [1, 2, 3])


def test_a_database_being_created_is_not_mistaken_for_another_program(tmp_path: Path) -> None:
    for number in range(sampled(12, 40)):
        start, go = os.pipe()

        def create(start: int = start, path: Path = tmp_path / f"{number}.db") -> None:
            os.read(start, 1)
            Database(path, 10.0).close()

        pids = [in_child(create) for _ in range(6)]
        os.write(go, b"!" * 6)
        assert [exit_code(pid) for pid in pids] == [0] * 6
        os.close(start)
        os.close(go)


def test_processes_that_create_one_database_at_once_all_succeed(tmp_path: Path) -> None:
    start, go = os.pipe()

    def child(name: str) -> Callable[[], None]:
        async def write() -> None:
            async with opened(tmp_path / "journal.db") as journal:
                for number in range(1, 21):
                    await commit(journal, Batch(events(name, [number]), body("same")))

        def work() -> None:
            os.read(start, 1)
            anyio.run(write)

        return work

    pids = [in_child(child(f"run-{number}")) for number in range(4)]
    os.write(go, b"!!!!")
    assert [exit_code(pid) for pid in pids] == [0] * 4
    os.close(start)
    os.close(go)

    async def check() -> None:
        async with opened(tmp_path / "journal.db") as journal:
            for number in range(4):
                assert await journal.read(f"run-{number}") == events(f"run-{number}", range(1, 21))

    anyio.run(check)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_is_killed_around_a_commit_keeps_whole_batches(tmp_path: Path, moment: str) -> None:
    class Dying(Committer):
        groups = 0

        def commit_group(self, batches: Sequence[Batch]) -> Sequence[BaseException | None]:
            self.groups += 1
            if self.groups == 3 and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            outcome = super().commit_group(batches)
            if self.groups == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            return outcome

    async def write() -> None:
        journal = SqliteJournal(tmp_path / "journal.db")
        journal._new_committer = Dying
        await journal.open()
        for number in range(1, 20, 2):
            await commit(journal, Batch(events("run", [number, number + 1]), body(str(number))))

    assert exit_code(in_child(lambda: anyio.run(write))) == -signal.SIGKILL

    async def check() -> None:
        async with opened(tmp_path / "journal.db") as journal:
            kept = 4 if moment == "before" else 6
            assert await journal.read("run") == events("run", range(1, kept + 1))
            run = await journal.find("run")
            assert run is not None
            assert run.status == "interrupted"

    anyio.run(check)


async def test_reading_many_events_leaves_garbage_collection_as_it_was(tmp_path: Path) -> None:
    async with opened(tmp_path / "journal.db") as journal:
        await commit(journal, Batch(events("run", range(1, 1001)), {}))
        assert len(await journal.read("run")) == 1000
        assert gc.isenabled()


def test_importing_the_journal_starts_nothing() -> None:
    code = "import threading, teamwright.journal.sqlite.journal; assert threading.active_count() == 1"
    subprocess.run([sys.executable, "-c", code], check=True)
