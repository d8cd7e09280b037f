"""A virtual-time loop: deadlines and sleeps are as usual, real time is reported, endless runs are ended."""

from __future__ import annotations

import asyncio
import socket
import threading

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, strategies as st

import teamwright.lab.simulation.virtual_loop as bounds
from teamwright import Engine, FunctionAgent, ModelAgent, Team
from teamwright.errors import UsageError, VirtualTimeStuck
from teamwright.history.kpis import kpis_of
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import InboxItem
from teamwright.lab.simulation.simulate import simulate
from teamwright.lab.simulation.simulated_agents import MOST_FILLED, Simulator, pad_text
from teamwright.lab.simulation.virtual_loop import VirtualLoop, run_virtually, virtual_now
from teamwright.strategies.protocol import Members
from teamwright.strategies.team_conversation import MOST_ESTIMATED
from teamwright.values.limits import CHARACTERS_PER_TOKEN, Limits
from teamwright.values.specs.simulation import Percentiles, Simulation
from teamwright.values.turns.turn import Turn
from tests.growth import assert_linear_calls

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


def member(name: str) -> ModelAgent:
    return ModelAgent(name, model="openai:gpt-5-mini")


@pytest.mark.parametrize("turns", [10**6, 10**9, 10**18])
def test_absurd_turn_counts_are_stopped(monkeypatch: pytest.MonkeyPatch, turns: int) -> None:  # S-01
    monkeypatch.setattr(bounds, "MOST_TURNS", 300)
    team = Team("t", members=[member("a"), member("b")], strategy="round_robin", max_turns=turns)
    with pytest.raises(UsageError, match=r"stopped after 30\d turns.*Lower max_turns"):
        simulate(team, "task", runs=1)


def test_the_prompts_of_members_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:  # S-01
    monkeypatch.setattr(bounds, "MOST_CHARACTERS", 1_000_000)
    team = Team("t", members=[member("a"), member("b")], strategy="round_robin", max_turns=10**6)
    with pytest.raises(UsageError, match="turns and 1000000 characters"):
        simulate(team, "task", runs=1)


def test_many_at_once_are_stopped_as_well(monkeypatch: pytest.MonkeyPatch) -> None:  # S-01
    monkeypatch.setattr(bounds, "MOST_TURNS", 50)
    options = {"chunks": list(range(200)), "max_parallel": 100}
    team = Team("t", members=[member("a"), member("b")], strategy="fan_out", options=options)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="was stopped after"):
        simulate(team, "task", runs=1)


def test_a_run_within_its_bound_is_as_ever() -> None:  # S-01
    team = Team("t", members=[member("a"), member("b")], strategy="round_robin", max_turns=5)
    assert simulate(team, "task", runs=2).shape("as declared").asks == 10


def test_a_limit_of_the_user_comes_first() -> None:
    from teamwright.values.limits import Limits

    team = Team("t", members=[member("a"), member("b")], strategy="round_robin", max_turns=10**9)
    report = simulate(team, "task", runs=1, limits=Limits(calls=20))
    assert "budget" in next(iter(report.shape("as declared").statuses))


def test_absurd_amounts_stay_numbers() -> None:  # S-01
    assert len(pad_text("x", 10**15)) == MOST_FILLED * CHARACTERS_PER_TOKEN
    assert Percentiles(p50=1.0, p90=1e300).quantile(0.999) > 1e20


def test_forecasts_of_absurd_turn_counts_say_nothing() -> None:  # S-01
    members = [member("a"), member("b")]
    for strategy in ("round_robin", "selector"):
        options = {"agent": "a"} if strategy == "selector" else {}
        team = Team("t", members=members, strategy=strategy, max_turns=10**12, options=options)  # pyright: ignore[reportArgumentType]
        assert team.strategy.expected_asks(team.settings, Members(members)) == {}
    usual = Team("t", members=members, strategy="round_robin", max_turns=MOST_ESTIMATED // 2)
    assert len(usual.strategy.expected_asks(usual.settings, Members(members))) == MOST_ESTIMATED


def layered(depth: int) -> Team:
    """Teams that each hold both teams of the layer below: there are twice as many paths with each layer."""
    below = [Team("t", members=[member("a")]), Team("u", members=[member("b")])]
    for number in range(depth):
        below = [Team(f"t{number}", members=below), Team(f"u{number}", members=below)]
    return Team("top", members=below)


def test_teams_that_share_teams_are_cast_once() -> None:  # S-01
    for behaviour in ({}, {f"t{number}": Simulation(skill=0.5) for number in range(40)}):
        assert_linear_calls(Simulator(behaviour).team, prepare=layered, size=20)
