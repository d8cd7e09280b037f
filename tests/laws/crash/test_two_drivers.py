"""Two drivers of one run: the lock refuses the second, and the journal fences out the first if it lost its lock."""

from __future__ import annotations

import threading
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
from msgspec.structs import replace

from teamwright.errors import FencedOut, RunIsLive
from teamwright.journal.protocol import Batch
from teamwright.runtime.engine import Engine
from teamwright.testing.model_server import ChatAnswer, ChatRequest, ModelServer
from tests.kit.killing_journal import KillingJournal
from tests.laws.crash.driver import RUN_ID
from tests.laws.crash.fork_server import ForkServer, JobResult
from tests.laws.crash.matrix import DRIVE
from tests.laws.crash.scenarios import SCENARIOS, TASK, answer


class SlowFirst:
    """A server that answers the first request of `b` only when it is released."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self._asked = 0
        self.server = ModelServer(self._answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.released.set()
        self.server.__exit__(kind, error, trace)

    def _answer(self, request: ChatRequest) -> ChatAnswer:
        if request.model == "b":
            self._asked += 1
            if self._asked == 1:
                self.released.wait()
        return answer(request)


@contextmanager
def in_background(fork_server: ForkServer, slow: SlowFirst, journal: Path) -> Generator[Future[JobResult]]:
    """Run a driver in another process; the block releases its answer at the latest on exit."""
    url = slow.server.call_url
    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(fork_server.try_to, DRIVE, scenario="sequential", url=url, journal=str(journal))
        finally:
            slow.released.set()


async def test_a_run_that_is_driven_by_a_living_process_is_refused_to_another(
    fork_server: ForkServer, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.db"
    with SlowFirst() as slow, in_background(fork_server, slow, journal) as first:
        slow.server.wait_for(2)
        team = SCENARIOS["sequential"].team(slow.server.call_url)
        async with Engine(journal) as engine:
            with pytest.raises(RunIsLive, match=r"teamwright runs show"):
                await engine.resume(RUN_ID, team=team)
            assert (await engine.runs.result(RUN_ID)).status == "running"
        slow.released.set()
        report = first.result()
        assert report.error is None
        assert slow.server.count == 3


async def test_starting_the_same_run_twice_starts_it_once(fork_server: ForkServer, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with SlowFirst() as slow, in_background(fork_server, slow, journal) as first:
        slow.server.wait_for(2)
        async with Engine(journal) as engine:
            handle = await engine.start(SCENARIOS["sequential"].team(slow.server.call_url), TASK, run_id=RUN_ID)
            assert (await engine.runs.result(RUN_ID)).status == "running"
            slow.released.set()
            assert (await handle.result()).status == "completed"
        assert first.result().value["status"] == "completed"
        assert slow.server.count == 3


def test_a_driver_that_was_overtaken_is_fenced_out_and_nothing_is_lost(
    fork_server: ForkServer, second_fork_server: ForkServer, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.db"
    with SlowFirst() as slow, in_background(fork_server, slow, journal) as first:
        slow.server.wait_for(2)
        url = slow.server.call_url
        second = second_fork_server.run(
            DRIVE, scenario="sequential", url=url, journal=str(journal), resume=True, locked=False
        )
        slow.released.set()
        overtaken = first.result()
        assert second.value["status"] == "completed"
        assert overtaken.error is not None
        assert "FencedOut" in overtaken.error
        assert "is driven by another process now" in overtaken.error
        # `b` was in doubt for the second driver, and nothing else was made twice.
        assert [request.model for request in slow.server.requests] == ["a", "b", "b", "c"]


async def test_the_record_of_an_overtaken_driver_stays_whole(tmp_path: Path) -> None:
    """Two drivers without a lock write to one journal at full speed: one of them wins, and the record is whole."""
    with ModelServer(answer) as server:
        team = SCENARIOS["branches"].team(server.call_url)
        path = str(tmp_path / "journal.db")
        async with Engine(KillingJournal(path, locked=False)) as one, Engine(KillingJournal(path, locked=False)) as two:
            first = await one.start(team, "task", run_id=RUN_ID)
            while await two.journal.find(RUN_ID) is None:
                pass
            second = await two.start_resume(RUN_ID, team=SCENARIOS["branches"].team(server.call_url))
            fenced = 0
            for handle in (first, second):
                try:
                    await handle.result()
                except FencedOut:
                    fenced += 1
            events = await one.journal.read(RUN_ID)
        assert fenced == 1
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert [event.kind for event in events].count("run.ended") == 1
        assert events[-1].kind == "run.ended"


async def test_an_event_number_that_exists_is_refused_whole(tmp_path: Path) -> None:
    with ModelServer(answer) as server:
        path = str(tmp_path / "journal.db")
        async with Engine(KillingJournal(path)) as engine:
            await engine.run(SCENARIOS["sequential"].team(server.call_url), "task", run_id=RUN_ID)
            events = await engine.journal.read(RUN_ID)
            answers: list[BaseException | None] = []
            late = [replace(events[-1], number=events[-1].number + 1), events[3]]
            async with engine.journal.drive(RUN_ID):
                engine.journal.append(Batch(late, {}), answers.append)
                await engine.journal.find(RUN_ID)
                while not answers:
                    await engine.journal.find(RUN_ID)
            assert isinstance(answers[0], FencedOut)
            assert await engine.journal.read(RUN_ID) == events
