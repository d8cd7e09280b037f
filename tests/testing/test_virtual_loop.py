"""A virtual-time loop: deadlines and sleeps are as usual, and real time is reported or waited for."""

from __future__ import annotations

import asyncio
import socket
import threading

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, strategies as st

from teamwright import Engine, FunctionAgent, Team
from teamwright.errors import VirtualTimeStuck
from teamwright.history.kpis import kpis_of
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import InboxItem
from teamwright.testing.virtual_loop import VirtualLoop, run_virtually, virtual_now
from teamwright.values.limits import Limits
from teamwright.values.turns.turn import Turn

DAY = 86_400.0


@given(st.lists(st.floats(min_value=0, max_value=1e6, allow_nan=False), min_size=1, max_size=12))
def test_sleepers_wake_in_the_order_of_their_times(times: list[float]) -> None:
    woken: list[tuple[float, float]] = []

    async def sleeper(seconds: float) -> None:
        await anyio.sleep(seconds)
        woken.append((seconds, virtual_now()))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for seconds in times:
                tasks.start_soon(sleeper, seconds)

    run_virtually(main)
    assert [asked for asked, _ in woken] == sorted(times)
    assert all(abs(now - asked) <= 2e-6 for asked, now in woken)


def test_time_begins_at_zero_and_moves_only_when_all_wait() -> None:
    async def main() -> list[float]:
        seen = [virtual_now()]
        for _ in range(1000):
            await asyncio.sleep(0)
        seen.append(virtual_now())
        await anyio.sleep(400 * DAY)
        return [*seen, virtual_now()]

    assert run_virtually(main) == [0.0, 0.0, 400 * DAY]


def test_nothing_is_really_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = VirtualLoop()
    files = loop._clock._files
    waits: list[float | None] = []
    look = files.select

    def watched(timeout: float | None = None) -> object:
        waits.append(timeout)
        return look(timeout)

    monkeypatch.setattr(files, "select", watched)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(asyncio.sleep(7 * DAY))
    assert set(waits) == {0}
    assert loop.time() == 7 * DAY


def test_a_deadline_rings_at_its_time_and_not_before() -> None:
    async def main() -> tuple[bool, float, bool, float]:
        with anyio.move_on_after(30) as first:
            await anyio.sleep(3600)
        early = virtual_now()
        with anyio.move_on_after(30) as second:
            await anyio.sleep(29.5)
        return first.cancelled_caught, early, second.cancelled_caught, virtual_now()

    assert run_virtually(main) == (True, 30.0, False, 59.5)


def test_a_clock_that_has_run_for_decades_still_rings() -> None:
    async def main() -> float:
        await anyio.sleep(10_000 * DAY)
        await anyio.sleep(0.25)
        return virtual_now()

    assert run_virtually(main) == 10_000 * DAY + 0.25


def test_a_wait_that_never_ends_is_reported() -> None:
    async def main() -> None:
        await anyio.Event().wait()

    with pytest.raises(VirtualTimeStuck, match="no timer is set"):
        run_virtually(main)


def test_a_wait_for_a_thread_is_reported_even_beside_timers() -> None:
    done = threading.Event()

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep, 1e12)
            await anyio.to_thread.run_sync(done.wait, 0.01)

    with pytest.raises(VirtualTimeStuck, match=r"thread 'AnyIO worker thread'.*async"):
        run_virtually(main)


def test_a_thread_that_answers_once_the_loop_has_failed_does_not_disturb_its_closing() -> None:
    closes = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        thread = threading.Thread(target=lambda: closes.wait() and loop.call_soon_threadsafe(str))
        thread.start()
        try:
            await anyio.Event().wait()
        finally:
            closes.set()
            thread.join()

    with pytest.raises(VirtualTimeStuck, match="no timer is set"):
        run_virtually(main)


def test_what_is_ready_in_a_pipe_is_read() -> None:
    async def main() -> bytes:
        here, there = await asyncio.open_connection(sock=pair[0])
        pair[1].sendall(b"ready")
        read = await here.readexactly(5)
        there.close()
        return read

    pair = socket.socketpair()
    with pair[1]:
        assert run_virtually(main) == b"ready"


def test_hours_of_a_run_cost_no_look_at_the_inbox() -> None:
    looks = 0

    class Looked(MemoryJournal):
        async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
            nonlocal looks
            looks += 1
            return []

    async def slow(turn: Turn) -> str:
        await anyio.sleep(5 * DAY)
        return "done"

    async def main() -> tuple[str, float]:
        journal = Looked()
        async with Engine(journal, wall=virtual_now) as engine:
            result = await engine.run(Team("t", members=[FunctionAgent("a", slow)]), "go", run_id="r")
        return result.status, kpis_of(await journal.read("r")).seconds

    assert run_virtually(main) == ("completed", 5 * DAY)
    assert looks <= 2


def test_a_limit_on_time_holds_on_the_virtual_clock() -> None:
    async def slow(turn: Turn) -> str:
        await anyio.sleep(3600)
        return "too late"

    async def main() -> tuple[str, float]:
        async with Engine("memory", wall=virtual_now) as engine:
            team = Team("t", members=[FunctionAgent("a", slow)], limits=Limits(seconds=60))
            result = await engine.run(team, "go")
        return result.status, virtual_now()

    assert run_virtually(main) == ("timeout", 60.0)


def test_the_same_engine_work_takes_the_same_steps_on_every_clock() -> None:
    async def main() -> list[tuple[str, float]]:
        journal = MemoryJournal()
        async with Engine(journal, wall=virtual_now, seed=lambda: 5) as engine:

            async def nap(turn: Turn) -> str:
                await anyio.sleep(1)
                return "rested"

            members = [FunctionAgent(f"a{number}", nap) for number in range(3)]
            await engine.run(Team("t", members=members), "go", run_id="r")
        return [(event.kind, event.time) for event in await journal.read("r")]

    assert run_virtually(main) == run_virtually(main)
    assert run_virtually(main)[-1] == ("run.ended", 3.0)


def test_a_thread_that_answers_late_does_not_keep_the_loop_from_closing() -> None:
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        loop._clock.answered_from = "late"
        with pytest.raises(VirtualTimeStuck, match="'late'"):
            runner.run(asyncio.sleep(0))
        loop._clock.answered_from = "later"
    assert loop.is_closed()


def test_a_patient_loop_waits_for_threads_and_jumps_between_them() -> None:
    done = threading.Event()

    async def main() -> tuple[bool, float, float]:
        with anyio.move_on_after(60) as deadline:
            await anyio.to_thread.run_sync(done.wait, 0.02)
        before = virtual_now()
        await anyio.sleep(DAY)
        return deadline.cancelled_caught, before, virtual_now()

    assert run_virtually(main, patient=True) == (False, 0.0, DAY)
