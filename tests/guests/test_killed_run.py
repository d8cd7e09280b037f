"""A team of a coding agent, guests and a member of ours that is really killed, counted by the model server.

Killed at any write, nothing that is recorded is paid for twice, no process is left, and a budget holds.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from shutil import copyfile
from typing import Any

import anyio
import pytest

from teamwright import Engine
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.sqlite.journal import SqliteJournal
from teamwright.runtime.recorded.reader import read_record
from teamwright.runtime.tasks import CANCEL_GRACE
from teamwright.runtime.working_trees.apply import RecordedBranch
from teamwright.testing import CallTools, ChatRequest, ModelServer, Say
from teamwright.testing.model_server import complete
from teamwright.values.events.agent import AgentCalled, AgentReturned
from teamwright.values.events.event import Event
from tests.guests import killed_run
from tests.guests.killed_run import CODER, RUN_ID, make_repository
from tests.kit.effects import is_gone, wait_until
from tests.kit.killing_journal import When
from tests.laws.crash.fork_server import ForkServer, JobResult
from tests.profiles import sampled

DRIVE = "tests.guests.killed_run:drive"
STEP = sampled(6, 1)
"""At which writes a run is killed: all of them, or every sixth."""
pytestmark = pytest.mark.timeout(1800)  # a life takes a second, and there are two for each of the writes


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    with ForkServer() as made:
        yield made


class KilledRuns:
    """The model server of the team, which bills each answer that it gives, and the journals of its runs."""

    def __init__(self, fork_server: ForkServer, folder: Path) -> None:
        self.server, self.folder, self._fork_server = ModelServer(self._answer), folder, fork_server
        self.journal = folder / "none.db"
        self.billed = 0
        make_repository(folder)

    def _answer(self, request: ChatRequest) -> Say | CallTools:
        answer = killed_run.answer(request)
        self.billed += int(str(complete(request, answer).usage["total_tokens"]))
        return answer

    def begin(self, name: str) -> None:
        """Use a new journal for the next run, and bill from nothing."""
        self.journal, self.billed = self.folder / f"{name}.db", 0
        self.count()

    def go_back_to(self, other: Path, name: str) -> None:
        """Use a copy of another journal, with its write-ahead log, for the next driver."""
        self.begin(name)
        for ending in ("", "-wal"):
            if (part := other.with_name(other.name + ending)).exists():
                copyfile(part, self.journal.with_name(self.journal.name + ending))

    def drive(self, **more: Any) -> JobResult:
        """Start or resume the run in a child, and wait until it ends or is killed, and with it all processes."""
        report = self._fork_server.run(
            DRIVE, url=self.server.url, folder=str(self.folder), journal=str(self.journal), **more
        )
        anyio.run(self._check_that_none_is_left)
        return report

    async def _check_that_none_is_left(self) -> None:
        pids = self.folder / "pids"
        for pid in map(int, pids.read_text().split() if pids.exists() else ()):
            await wait_until(partial(is_gone, pid))
        pids.unlink(missing_ok=True)

    def count(self) -> Counter[str]:
        """Return how often each member has asked a model, or called the tool, since it was counted last."""
        made = Counter(request.model for request in self.server.requests)
        self.server.clear()
        if (called := self.folder / "looked-up").exists():
            made.update(f"tool of {city}" for city in called.read_text().split())
            called.unlink()
        return made

    def events(self) -> Sequence[Event]:
        async def read() -> list[Event]:
            journal = SqliteJournal(self.journal)
            await journal.open()
            try:
                return await journal.read(RUN_ID)
            finally:
                await journal.close()

        return anyio.run(read)

    def patched(self) -> bytes:
        """Return which files the branch of the run has changed."""

        async def read() -> bytes:
            journal = SqliteJournal(self.journal)
            await journal.open()
            try:
                found = RecordedBranch(journal, await read_record(journal, RUN_ID))
                return await (await found.open()).git.run("ls-tree", "--name-only", found.branch.tip())
            finally:
                await journal.close()

        return anyio.run(read)


@pytest.fixture
def runs(fork_server: ForkServer, tmp_path: Path) -> Iterator[KilledRuns]:
    made = KilledRuns(fork_server, tmp_path)
    with made.server:
        yield made


def recorded(events: Sequence[Event]) -> Counter[str]:
    """Return how many requests and calls of each member have a recorded result."""
    called = {event.key: event.fact.effect for event in events if isinstance(event.fact, AgentCalled)}
    found: Counter[str] = Counter()
    for event in events:
        if isinstance(event.fact, AgentReturned) and "/merge" not in event.key:
            member = event.key.split("/")[1]
            is_tool = called[event.key] == "tool"
            found[f"tool of {member}" if is_tool else member] += killed_run.PROMPTS if member == CODER else 1
    return found


def uninterrupted(made: KilledRuns) -> tuple[dict[str, Any], Counter[str]]:
    made.begin("uninterrupted")
    result = made.drive().value
    assert result["status"] == "completed", result
    counts = made.count()
    assert counts == recorded(made.events()), "each request and each call of the tool is an effect"
    assert made.billed == result["tokens"]
    return result, counts


def check_resumed(made: KilledRuns, before: Sequence[Event], expected: dict[str, Any], counts: Counter[str]) -> None:
    """Check a run that has been resumed: nothing recorded was asked again, and it ended as if never killed."""
    result = made.drive().value
    assert (result["status"], result["output"]) == ("completed", expected["output"]), result
    assert made.count() == counts - recorded(before), f"after {len(before)} events"
    events = made.events()
    assert list(events[: len(before)]) == list(before)
    assert [one.kind for one in events].count("run.ended") == 1
    assert result["tokens"] == expected["tokens"]
    assert made.patched() == b"made.py\n"


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_any_write_nothing_recorded_is_paid_for_again(runs: KilledRuns, when: When) -> None:
    expected, counts = uninterrupted(runs)
    for write in count(1 if when == "before" else 2, STEP):
        runs.begin(f"killed-{write}")
        if not runs.drive(write=write, when=when).killed:  # some writes share a commit now and then
            assert write > expected["writes"] // 2
            break
        before = runs.events()
        assert runs.count() >= recorded(before)
        check_resumed(runs, before, expected, counts)


def test_killed_again_while_it_is_resumed_nothing_recorded_is_paid_for_again(runs: KilledRuns) -> None:
    expected, counts = uninterrupted(runs)
    runs.begin("killed")
    assert runs.drive(write=expected["writes"] // 2, when="after").killed
    killed = runs.journal
    for write in count(1, STEP):
        runs.go_back_to(killed, f"again-{write}")
        if not runs.drive(write=write).killed:
            assert write > 2
            break
        before = runs.events()
        runs.count()
        check_resumed(runs, before, expected, counts)


@pytest.mark.parametrize("share", [0.8, 1.1])
def test_a_budget_holds_for_what_the_server_has_billed_however_often_a_run_is_killed(
    runs: KilledRuns, share: float
) -> None:
    expected, _ = uninterrupted(runs)
    limit = round(share * expected["tokens"])
    runs.begin("free")
    result = runs.drive(tokens=limit).value
    assert runs.billed <= result["tokens"] <= limit
    assert result["reason"] in {"budget", "done"}, result
    for write in count(1, STEP):
        runs.begin(f"killed-{write}")
        if not runs.drive(write=write, when="after", tokens=limit).killed:
            assert write > result["writes"] // 2
            break
        ended = runs.drive(tokens=limit).value
        assert max(runs.billed, ended["tokens"]) <= limit, f"after {write} writes"
        assert ended["reason"] in {"budget", "done"}, ended


async def test_a_cancelled_run_ends_every_guest_within_its_grace_time_and_leaves_no_process(tmp_path: Path) -> None:
    is_over = threading.Event()

    def answer(request: ChatRequest) -> Say:
        is_over.wait(60)
        return Say(text="Late.")

    make_repository(tmp_path)
    at_once = 1 + len(killed_run.FRAMEWORKS)
    with ModelServer(answer) as server:
        async with Engine(MemoryJournal()) as engine:
            handle = await engine.start(killed_run.team_of(server.url, tmp_path), killed_run.TASK, run_id=RUN_ID)
            await anyio.to_thread.run_sync(server.wait_for, at_once, 60.0)
            await engine.runs.cancel(RUN_ID, wait=False)
            with anyio.fail_after(2 * CANCEL_GRACE):
                result = await handle.result()
            abandoned = [one for one in await engine.journal.read(RUN_ID) if one.kind == "agent.abandoned"]
        for pid in map(int, (tmp_path / "pids").read_text().split()):
            await wait_until(partial(is_gone, pid))
        is_over.set()
        assert server.count == at_once
    assert (result.status, abandoned) == ("cancelled", [])
