"""A wall clock that is set while a run is driven, or between two drivers, changes no wait, no limit and no figure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright import Context, Engine, FunctionAgent, Limits, RunResult, Team, Turn
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import RateLimited
from teamwright.history.kpis import kpis_of
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import RunStatus
from teamwright.runtime.recorder import remaining_wait, steady_clock
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.agent import AgentAsked, AgentReplied
from teamwright.values.events.event import Event, Fact, fold
from teamwright.values.events.run import RunPaused, RunResumed, RunStarted, ScopeWaited
from teamwright.values.people import Question
from teamwright.values.retries import RetryPolicy
from tests.kit.strategies import FunctionStrategy, outcome

NOON = 1_760_000_000.0
HOUR, DAY = 3600.0, 86_400.0
JUMPS = pytest.mark.parametrize("jump", [-HOUR, DAY], ids=["an hour back", "a day forward"])


class Wall:
    """A wall clock that can be set."""

    def __init__(self) -> None:
        self.set_by = 0.0

    def __call__(self) -> float:
        return NOON + self.set_by


Kind = Literal["timer", "retry"]


def waiting_team(kind: Kind, seconds: float, reached: Callable[[], None]) -> Team:
    """A team that reports when its wait begins, and then waits that long on a durable timer or before a retry."""

    async def sleep(task: Task, members: Members, ctx: Context) -> Outcome:
        reached()
        await ctx.clock.sleep(seconds)
        return outcome("awake")

    async def limited(attempt: Attempt) -> Returned:
        if attempt.number == 1:
            reached()
            raise RateLimited("slow down", retry_after=seconds)
        return Returned("awake")

    async def call(turn: Turn, ctx: Context) -> str:
        policy = RetryPolicy(times=1, backoff=0.0)
        return str((await ctx.effect("call", Effect("function", "limited", "", limited, retry=policy))).value)

    if kind == "timer":
        return Team("t", members=[FunctionAgent("a", repeat)], strategy=FunctionStrategy(sleep))
    return Team("t", members=[FunctionAgent("a", call)])


async def repeat(turn: Turn) -> str:
    return turn.task


async def hang(turn: Turn) -> str:
    await anyio.sleep_forever()
    return "never"


def assert_sound(events: Sequence[Event], result: RunResult, longest: float = 30.0) -> None:
    """Check that times only increase, and that no figure is negative or longer than the test itself."""
    times = [event.time for event in events]
    assert all(before <= after for before, after in pairwise(times))
    kpis = kpis_of(events)
    assert 0 <= result.seconds < longest
    assert 0 <= kpis.seconds < longest
    assert 0 <= (kpis.p95_latency_s or 0.0) < longest


@JUMPS
@pytest.mark.parametrize("kind", ["timer", "retry"])
async def test_a_wait_lasts_as_long_as_recorded_when_the_clock_is_set_meanwhile(
    kind: Kind, jump: float
) -> None:  # D-04
    wall, reached = Wall(), anyio.Event()
    journal = MemoryJournal()
    async with Engine(journal, wall=wall) as engine:
        handle = await engine.start(waiting_team(kind, 0.15, reached.set), "go", run_id="r")
        await reached.wait()
        wall.set_by = jump
        with anyio.fail_after(10):
            result = await handle.result()
        (summary,) = await engine.runs.list()
    events = await journal.read("r")
    assert result.output == "awake"
    assert_sound(events, result)
    assert result.seconds >= 0.15
    assert 0.15 <= summary.seconds < 30
    assert events[-1].time - events[0].time < 30


@JUMPS
@pytest.mark.parametrize("kind", ["timer", "retry"])
async def test_a_wait_is_never_longer_than_recorded_when_the_clock_is_set_between_drivers(
    kind: Kind, jump: float
) -> None:  # D-04
    wall, reached = Wall(), anyio.Event()
    journal = MemoryJournal()
    team = waiting_team(kind, 0.3, reached.set)
    async with Engine(journal, wall=wall) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await reached.wait()
        await anyio.sleep(0.02)
        handle.interrupt()
        await handle.result()
    wall.set_by = jump
    async with Engine(journal, wall=wall) as engine:
        with anyio.fail_after(10):
            result = await engine.resume("r", team=team)
        (summary,) = await engine.runs.list()
    assert result.output == "awake"
    assert_sound(await journal.read("r"), result)
    assert 0 <= summary.seconds < 30


@JUMPS
async def test_a_time_limit_is_neither_reached_early_nor_late_when_the_clock_is_set(jump: float) -> None:  # D-04
    wall, reached = Wall(), anyio.Event()

    async def work(turn: Turn) -> str:
        wall.set_by = jump
        await anyio.sleep(0.02)
        return "in time"

    async def stop(turn: Turn) -> str:
        reached.set()
        return await hang(turn)

    journal = MemoryJournal()
    async with Engine(journal, wall=wall) as engine:
        early = await engine.run(Team("t", members=[FunctionAgent("a", work)]), "go", limits=Limits(seconds=60))
        wall.set_by = 0.0
        handle = await engine.start(
            Team("t", members=[FunctionAgent("a", stop)]), "go", run_id="r", limits=Limits(seconds=0.2)
        )
        await reached.wait()
        wall.set_by = jump
        with anyio.fail_after(10):
            late = await handle.result()
    assert (early.output, early.status) == ("in time", "completed")
    assert early.seconds < 30
    assert late.status == "timeout"
    assert_sound(await journal.read("r"), late)


@JUMPS
async def test_the_time_left_of_a_limit_is_the_same_after_a_restart_with_another_clock(jump: float) -> None:  # D-04
    wall, elapsed = Wall(), [0.0]
    journal, reached = MemoryJournal(), anyio.Event()

    async def work(turn: Turn) -> str:
        if reached.is_set():
            return "in time"
        reached.set()
        return await hang(turn)

    def team() -> Team:
        return Team("t", members=[FunctionAgent("a", work)])

    async with Engine(journal, wall=wall, monotonic=lambda: elapsed[0]) as engine:
        handle = await engine.start(team(), "go", run_id="r", limits=Limits(seconds=60))
        await reached.wait()
        elapsed[0], wall.set_by = 7.0, jump
        handle.interrupt()
        assert (await handle.result()).seconds == pytest.approx(7.0)
    async with Engine(journal, wall=wall, monotonic=lambda: elapsed[0]) as engine:
        result = await engine.resume("r", team=team())
    assert result.output == "in time"
    assert result.seconds == pytest.approx(7.0)


@JUMPS
async def test_waiting_for_a_person_costs_no_time_whatever_the_clock_says(jump: float) -> None:  # D-04
    wall = Wall()

    async def ask(task: Task, members: Members, ctx: Context) -> Outcome:
        answer = await ctx.ask_person(Question(text="?"), key="q")
        return outcome(answer.text)

    team = Team("t", members=[FunctionAgent("a", repeat)], strategy=FunctionStrategy(ask), limits=Limits(seconds=20))
    journal = MemoryJournal()
    async with Engine(journal, wall=wall) as engine:
        handle = await engine.start(team, "go", run_id="r")
        handle.set_interactive(True)
        with anyio.fail_after(10):
            async for item in engine.runs.follow("r"):
                if isinstance(item, Event) and item.kind == "person.asked":
                    break
            wall.set_by = jump
            await anyio.sleep(0.05)
            await engine.runs.answer("r", "t/q", "yes")
            result = await handle.result()
        (summary,) = await engine.runs.list()
    assert result.output == "yes"
    assert_sound(await journal.read("r"), result)
    assert 0 <= summary.seconds < 30


async def test_what_is_recorded_without_a_driver_is_no_earlier_than_what_was_recorded_before() -> None:  # D-04
    wall = Wall()

    async def ask(task: Task, members: Members, ctx: Context) -> Outcome:
        return outcome((await ctx.ask_person(Question(text="?"), key="q")).text)

    def team() -> Team:
        return Team("t", members=[FunctionAgent("a", repeat)], strategy=FunctionStrategy(ask))

    journal = MemoryJournal()
    async with Engine(journal, wall=wall) as engine:
        await engine.run(team(), "go", run_id="r")
        wall.set_by = -HOUR
        await engine.runs.checkpoint("r", "later")
        await engine.fork("r", team=team(), new_id="f")
        await engine.runs.answer("f", "t/q", "yes")
        forked = await engine.resume("f", team=team())
        ended = await engine.runs.cancel("r")
    assert_sound(await journal.read("r"), ended)
    assert 0 <= forked.seconds < 30
    assert kpis_of(await journal.read("f")).seconds < 30


@given(st.floats(-1e9, 4e9), st.floats(0, 2e9), st.floats(0, 1e7), st.lists(st.floats(0, 1e6)))
def test_a_steady_clock_never_goes_back_nor_starts_before_the_record(
    set_to: float, not_before: float, booted: float, passing: list[float]
) -> None:  # D-04
    wall, elapsed = Wall(), [booted]
    wall.set_by = set_to - NOON
    now = steady_clock(wall, lambda: elapsed[0], not_before)
    first = before = now()
    assert first >= not_before
    assert first == pytest.approx(max(wall(), not_before), abs=1e-5)
    for seconds in passing:
        wall.set_by -= 1000
        elapsed[0] += seconds
        after = now()
        assert after >= before
        before = after
    assert before - first == pytest.approx(elapsed[0] - booted, abs=1e-5)


@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12), st.floats(0, 1e9))
def test_what_is_left_of_a_wait_is_between_nothing_and_the_whole(due: float, now: float, whole: float) -> None:
    assert 0 <= remaining_wait(due, now, whole) <= whole


FACTS: tuple[tuple[str, Fact], ...] = (
    ("", RunStarted(team="t", task="b", manifest="b", seed=1)),
    ("t", AgentAsked(member="t", member_kind="team", turn=1, task="b", length=0, digest="d")),
    ("t/a", AgentAsked(member="a", member_kind="function", turn=1, task="b", length=0, digest="d")),
    ("t/a", AgentReplied()),
    ("", ScopeWaited(seconds=5.0)),
    ("", RunPaused(stop_reason="person")),
    ("", RunResumed(driver="d")),
    ("t", AgentReplied()),
)


@given(st.lists(st.floats(0, 4e9), min_size=len(FACTS), max_size=len(FACTS)))
def test_a_record_whose_times_go_backwards_gives_no_negative_figures(times: list[float]) -> None:  # D-04
    events: list[Event] = []
    for number, (time, (key, fact)) in enumerate(zip(times, FACTS, strict=True), start=1):
        scope, _, place = key.rpartition("/")
        events.append(Event("r", number, time, scope, place, fact))
    status = fold(events, RunStatus())
    assert status.summary("r", driven=False).seconds >= 0
    kpis = kpis_of(events)
    assert kpis.seconds >= 0
    assert (kpis.p95_latency_s or 0.0) >= 0
