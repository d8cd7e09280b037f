"""Time, random numbers and ids derive from the seed, the scope and a counter."""

from __future__ import annotations

from teamwright import Context, Engine, Team, Turn
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.context.timers import ScopeClock
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome


async def nothing(name: str, seconds: float) -> None: ...


def clock(seed: int = 1, scope: str = "team") -> ScopeClock:
    return ScopeClock(seed, scope, lambda: 5.0, nothing)


def test_the_same_scope_draws_the_same_again() -> None:
    one, other = clock(), clock()
    assert [one.random() for _ in range(5)] == [other.random() for _ in range(5)]
    assert one.new_id() == other.new_id()
    assert one.now() == 5.0


def test_numbers_differ_from_draw_to_draw_scope_to_scope_and_seed_to_seed() -> None:
    draws = [clock().random(), clock(seed=2).random(), clock(scope="other").random()]
    same = clock()
    draws += [same.random(), same.random()]
    assert len(set(draws)) == 4
    assert all(0 <= one < 1 for one in draws)


def test_ids_do_not_repeat() -> None:
    one = clock()
    assert len({one.new_id() for _ in range(1000)}) == 1000


async def test_sleeps_are_named_by_their_count() -> None:
    names: list[tuple[str, float]] = []

    async def sleep(name: str, seconds: float) -> None:
        names.append((name, seconds))

    one = ScopeClock(1, "", lambda: 0.0, sleep)
    await one.sleep(1)
    await one.sleep(2)
    assert names == [("sleep-1", 1), ("sleep-2", 2)]


async def test_a_resumed_run_draws_and_reads_the_clock_as_before() -> None:
    seen: list[tuple[float, float, str]] = []

    async def draw(task: Task, members: Members, ctx: Context) -> Outcome:
        await ctx.ask(members[0], Turn(task.text), key="first")
        seen.append((ctx.clock.now(), ctx.clock.random(), ctx.clock.new_id()))
        await ctx.clock.sleep(0.001)
        seen.append((ctx.clock.now(), ctx.clock.random(), ctx.clock.new_id()))
        return outcome(str(seen[-2:]))

    team = Team("t", members=[FakeMembers().member("a")], strategy=FunctionStrategy(draw))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(team, "go", run_id="r")
    events = await journal.read("r")
    fired = next(event.number for event in events if event.kind == "run.timer_fired")
    for at in range(fired, len(events)):
        result, _ = await cut_and_resume(team, at, journal)
        assert result.output == whole.output


async def test_a_crash_does_not_start_a_sleep_again() -> None:
    async def wait(task: Task, members: Members, ctx: Context) -> Outcome:
        await ctx.clock.sleep(0.15)
        return outcome("awake")

    team = Team("t", members=[FakeMembers().member("a")], strategy=FunctionStrategy(wait))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    events = await journal.read("r")
    set_at = next(event.number for event in events if event.kind == "run.timer_set")
    _, kinds = await cut_and_resume(team, set_at, journal)
    assert kinds.count("run.timer_set") == 1
    assert kinds.count("run.timer_fired") == 1
