"""Forking and reading while runs are deleted: a run is there whole, or it is not found.  # D-06"""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Collection
from pathlib import Path

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Team
from teamwright.errors import RunNotFound
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.values.events.agent import Body
from teamwright.values.events.event import Event

SAID = ["a spoke", "b spoke", "c spoke"]


def team() -> Team:
    def agent(name: str) -> FunctionAgent:
        return FunctionAgent(name, lambda task: f"{name} spoke")

    return Team("t", members=[agent(name) for name in "abc"])


def delete(path: Path, run_id: str) -> None:
    """Delete a run through another journal in another thread."""

    async def work() -> None:
        journal = SqliteJournal(path)
        await journal.open()
        await journal.delete([run_id])
        await journal.close()

    thread = threading.Thread(target=lambda: anyio.run(work))
    thread.start()
    thread.join()


class Pruned(SqliteJournal):
    """Deletes the run `source` through another journal just before the n-th use."""

    def __init__(self, path: Path, moment: int) -> None:
        super().__init__(path)
        self._file, self._moment, self.uses = path, moment, 0

    def _use(self) -> None:
        self.uses += 1
        if self.uses == self._moment:
            delete(self._file, "source")

    async def read(
        self, run_id: str, after: int = 0, limit: int | None = None, *, without: Collection[str] = ()
    ) -> list[Event]:
        self._use()
        return await super().read(run_id, after, limit, without=without)

    async def bodies(self, hashes: Collection[Body]) -> dict[Body, str]:
        self._use()
        return await super().bodies(hashes)

    def append(self, batch: Batch, done: Committed) -> None:
        if batch.source is not None:
            self._use()
        super().append(batch, done)


async def record(path: Path) -> None:
    async with Engine(path) as engine:
        await engine.run(team(), "go", run_id="source")


async def test_a_fork_beside_a_prune_is_whole_or_its_run_is_not_found(tmp_path: Path) -> None:  # D-06
    whole = not_found = 0
    for moment in range(1, 9):
        path = tmp_path / str(moment) / "journal.db"
        await record(path)
        journal = Pruned(path, moment)
        async with Engine(journal) as engine:
            try:
                forked = await engine.fork("source", team=team(), new_id="fork")
            except RunNotFound:
                not_found += 1
                assert await journal.find("fork") is None
                continue
            whole += 1
            assert [one.content for one in forked.messages] == SAID
            if await journal.find("source"):
                await journal.delete(["source"])
            assert [one.content for one in (await engine.runs.result("fork")).messages] == SAID
            again = await engine.fork("fork", team=team())
            assert [one.content for one in again.messages] == SAID
    assert not_found >= 3
    assert whole >= 2


async def test_a_run_that_is_deleted_while_it_is_read_is_not_found(tmp_path: Path) -> None:  # D-06
    path = tmp_path / "journal.db"
    await record(path)
    async with Engine(Pruned(path, 2)) as engine:
        with pytest.raises(RunNotFound):
            await engine.runs.history("source")


async def test_a_fork_in_memory_whose_run_was_deleted_is_not_found() -> None:  # D-06
    class Forgetful(MemoryJournal):
        def append(self, batch: Batch, done: Committed) -> None:
            if batch.source is not None:
                del self._logs[batch.source]
            super().append(batch, done)

    async with Engine(Forgetful()) as engine:
        await engine.run(team(), "go", run_id="source")
        with pytest.raises(RunNotFound):
            await engine.fork("source", team=team())


async def test_forks_and_prunes_of_two_processes_never_look_like_damage(tmp_path: Path) -> None:  # D-06
    path = tmp_path / "journal.db"
    program = textwrap.dedent("""
        import random, sys, time, anyio
        from teamwright.errors import RunIsLive
        from teamwright.journal.sqlite.journal import SqliteJournal

        async def main():
            journal = SqliteJournal(sys.argv[1])
            await journal.open()
            print("open", flush=True)
            until = time.monotonic() + 4
            while time.monotonic() < until:
                ended = [run.id for run in await journal.runs() if run.status == "completed"]
                for one in random.sample(ended, min(2, len(ended))):
                    try:
                        await journal.delete([one])
                    except RunIsLive:
                        pass
                await anyio.sleep(random.uniform(0, 0.02))
            await journal.close()

        anyio.run(main)
    """)
    async with Engine(path) as engine:
        with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE) as pruning:
            assert pruning.stdout is not None
            await anyio.to_thread.run_sync(pruning.stdout.readline)
            made = ["none"]
            while pruning.poll() is None:
                made.append((await engine.run(team(), f"go {len(made)}")).run_id)
                for one in random.sample(made, min(3, len(made))):
                    try:
                        forked = await engine.fork(one, team=team())
                    except RunNotFound:
                        continue
                    assert [message.content for message in forked.messages] == SAID
                    made.append(forked.run_id)
        assert pruning.returncode == 0
