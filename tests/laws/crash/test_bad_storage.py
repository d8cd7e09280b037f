"""A full disk, a locked or a damaged database during a run: the error is clear, no recorded event is lost, and the run
resumes once the condition is over."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import JournalCorrupt, JournalError, JournalUnavailable
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.engine import Engine
from teamwright.runtime.sync import run_sync
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentAsked
from teamwright.values.turns.turn import Turn
from tests.laws.crash.fork_server import ForkServer

LONG = "x" * 20_000
Condition = Callable[[SqliteJournal, Path], Any]


class Chain:
    """A team of four members; something happens to the journal while the third answers."""

    def __init__(self, condition: Callable[[], object] = lambda: None) -> None:
        self._condition = condition
        self.called: list[str] = []

    def team(self) -> Team:
        return Team("chain", members=[FunctionAgent(name, self._member(name)) for name in "abcd"], share="output")

    def _member(self, name: str) -> Callable[[Turn], Any]:
        async def respond(turn: Turn) -> str:
            self.called.append(name)
            if name == "c":
                self._condition()
            return f"{name}{turn.task[:6]}{LONG}"

        return respond


@contextmanager
def full_disk(journal: SqliteJournal, path: Path) -> Generator[None]:
    """SQLite can't allocate another page."""
    writer = journal._database.writer
    writer.execute(f"PRAGMA max_page_count = {writer.execute('PRAGMA page_count').fetchone()[0]}")
    yield


@contextmanager
def locked(journal: SqliteJournal, path: Path) -> Generator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def changed(journal: SqliteJournal, path: Path) -> Generator[None]:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("ALTER TABLE events RENAME TO gone")
        yield
        other.execute("ALTER TABLE gone RENAME TO events")


@pytest.mark.parametrize(
    ("condition", "error", "words"),
    [
        (full_disk, JournalUnavailable, "the disk is full"),
        (locked, JournalUnavailable, "another process has locked it"),
        (changed, JournalUnavailable, "another version of Teamwright may have changed it"),
    ],
)
async def test_a_run_survives_what_happens_to_its_journal(
    condition: Condition, error: type[JournalError], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, busy_timeout=0.1)
    happening: list[Any] = []

    def happen() -> None:
        made = condition(journal, path)
        made.__enter__()
        happening.append(made)

    chain = Chain(happen)
    async with Engine(journal) as engine:
        with pytest.raises(error, match=words) as told:
            await engine.run(chain.team(), "task", run_id="r")
        assert path.name in str(told.value)
        happening[0].__exit__(None, None, None)
    assert chain.called == ["a", "b", "c"]

    again = Chain()
    async with Engine(path) as engine:
        assert (await engine.runs.result("r")).status == "interrupted"
        before = await engine.journal.read("r")
        assert [event.fact.member for event in before if isinstance(event.fact, AgentAsked)][1:] == ["a", "b", "c"]
        result = await engine.resume("r", team=again.team())
        after = await engine.journal.read("r")
    assert again.called == ["c", "d"]
    assert result.status == "completed"
    async with Engine("memory") as engine:
        assert result.messages == (await engine.run(Chain().team(), "task")).messages
    assert after[: len(before)] == before


def fill_up(journal: str) -> dict[str, Any]:
    """In a child: from the third answer on, no file can grow, not even within the preallocated log."""

    def no_more() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))

    chain = Chain(no_more)
    try:
        run_sync(chain.team(), "task", journal=journal, run_id="r")
    except JournalError as error:
        return {"error": str(error), "kind": type(error).__name__, "called": chain.called}
    return {}


async def test_a_run_survives_a_disk_that_takes_nothing_more(fork_server: ForkServer, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    told = fork_server.run(f"{__name__}:fill_up", journal=str(path)).value
    assert told["kind"] == "JournalUnavailable"
    assert "what was recorded before is safe" in told["error"]
    assert told["called"] == ["a", "b", "c"]
    again = Chain()
    async with Engine(path) as engine:
        result = await engine.resume("r", team=again.team())
    assert again.called == ["c", "d"]
    assert result.status == "completed"


async def test_a_journal_that_is_no_database_is_refused_with_a_clear_message_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(b"not a database at all" * 1000)
    with pytest.raises(JournalCorrupt, match=r"restore a backup"):
        async with Engine(path):
            pass
    assert path.read_bytes() == b"not a database at all" * 1000


async def test_a_damaged_page_is_reported_and_a_backup_resumes(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    crashing = Chain(lambda: 1 / 0)
    async with Engine(path) as engine:
        await engine.run(Chain().team(), "task", run_id="whole")
        assert (await engine.run(crashing.team(), "task", run_id="r")).status == "failed"
    backup = path.read_bytes()
    page = 4096
    path.write_bytes(backup[:page] + b"\xff" * (len(backup) - page))
    with pytest.raises(JournalCorrupt, match=r"\.recover|restore a backup"):
        async with Engine(path) as engine:
            await engine.runs.history("r")
    path.write_bytes(backup)
    async with Engine(path) as engine:
        assert (await engine.runs.result("whole")).status == "completed"
