"""Keys that scopes own: run-wide, acquired together, by priority, always released, and never held forever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Limits, RunResult, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.errors import AgentTimeout, ManifestError, NotOwned
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.people import Question
from teamwright.strategies import Outcome, Task
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.protocol import Members
from teamwright.values.events.event import Event
from teamwright.values.events.team import StepHeldUp
from teamwright.values.specs.plan import Step
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome

Work = Callable[[Context], Awaitable[None]]


async def run(team: Agent, journal: MemoryJournal | None = None) -> tuple[RunResult, list[Event]]:
    journal = journal or MemoryJournal()
    async with Engine(journal) as engine:
        with anyio.fail_after(20):
            result = await engine.run(team, "go", run_id="r")
    return result, list(await journal.read("r"))


def held_up(events: list[Event]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(one.scope, one.fact.keys, one.fact.by) for one in events if isinstance(one.fact, StepHeldUp)]


class WorkLog:
    """Members that record when they begin and end, and which others work at the same time."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.at_work: set[str] = set()
        self.together: set[frozenset[str]] = set()

    def member(self, name: str, seconds: float = 0.002) -> FunctionAgent:
        async def work(turn: Turn) -> str:
            self.log.append(name)
            self.together |= {frozenset((name, other)) for other in self.at_work}
            self.at_work.add(name)
            try:
                await anyio.sleep(seconds)
            finally:
                self.at_work.discard(name)
            return name

        return FunctionAgent(name, work)

    def met(self, one: str, other: str) -> bool:
        return frozenset((one, other)) in self.together


def owner(member: Agent, *keys: str, priority: int = 0) -> Work:
    async def work(ctx: Context) -> None:
        async with ctx.scope("own", owns=keys, priority=priority) as inner:
            await inner.ask(member, Turn("work"), key="k")

    return work


def side_by_side(*works: Work) -> FunctionStrategy:
    async def go(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(len(works)) as branches:
            for number, work in enumerate(works):
                branches.start(f"b{number}", work)
        return outcome("done")

    return FunctionStrategy(go)


async def test_two_scopes_that_own_one_key_never_overlap_and_others_do() -> None:  # Z-05
    work_log = WorkLog()
    a, b, c = (work_log.member(name) for name in "abc")
    strategy = side_by_side(owner(a, "x", "y"), owner(b, "y"), owner(c, "z"))
    result, events = await run(Team("t", members=[a, b, c], strategy=strategy))
    assert result.status == "completed"
    assert not work_log.met("a", "b")
    assert work_log.met("a", "c")
    assert held_up(events) == [("t/b1/own", ("y",), ("t/b0/own",))]


async def test_no_wait_is_recorded_for_a_scope_that_need_not_wait() -> None:
    work_log = WorkLog()
    members = [work_log.member(name) for name in "ab"]
    _, events = await run(Team("t", members=members, strategy=side_by_side(*(owner(one, one.name) for one in members))))
    assert held_up(events) == []


async def test_one_lock_holds_across_nested_teams_and_their_branches() -> None:  # Z-05
    work_log = WorkLog()
    a, b, c = (work_log.member(name) for name in "abc")
    one = Team("one", members=[a, c], strategy=side_by_side(owner(a, "src/x.py"), owner(c, "other")))
    other = Team("other", members=[b], strategy=side_by_side(owner(b, "src/**")))

    def team_of(team: Team) -> Work:
        async def work(ctx: Context) -> None:
            await ctx.ask(team, Turn("go"), key="team")

        return work

    result, events = await run(Team("t", members=[one, other], strategy=side_by_side(team_of(one), team_of(other))))
    assert result.status == "completed"
    assert not work_log.met("a", "b")
    assert work_log.met("a", "c")
    assert [keys for _, keys, _ in held_up(events)] == [("src/**",)]


async def test_the_highest_priority_goes_first_and_later_takers_do_not_starve_it() -> None:  # Z-05
    """Late scopes want a free key while a scope of higher priority waits for it and for another one."""
    work_log = WorkLog()
    names = ["first", "low", "both", "late", "later"]
    first, low, both, late, later = members = [work_log.member(name) for name in names]
    works = [
        owner(first, "x"),
        owner(low, "x"),
        owner(both, "x", "y", priority=5),
        owner(late, "y", priority=1),
        owner(later, "y"),
    ]
    await run(Team("t", members=members, strategy=side_by_side(*works)))
    assert work_log.log[:2] == ["first", "both"]
    assert work_log.log.index("late") < work_log.log.index("later")


async def test_within_an_owning_scope_its_parts_are_shared_out_and_nothing_more() -> None:  # Z-05
    work_log = WorkLog()
    a, b, outside = (work_log.member(name) for name in ("a", "b", "outside"))
    words: list[str] = []

    async def inside(ctx: Context) -> None:
        async with ctx.scope("all", owns=["src/**"]) as inner:
            async with inner.branches(3) as branches:
                branches.start("a", owner(a, "src/a.py"))
                branches.start("b", owner(b, "src/a.py"))
            with pytest.raises(NotOwned) as refused:
                async with inner.scope("more", owns=["docs/x.md"]):
                    pass
            words.append(str(refused.value))

    strategy = side_by_side(inside, owner(outside, "src/a.py"))
    result, _ = await run(Team("t", members=[a, b, outside], strategy=strategy))
    assert result.status == "completed"
    assert work_log.log == ["a", "b", "outside"]
    assert not work_log.together
    assert "would own 'docs/x.md', and what is around it owns only 'src/**'" in words[0]


async def test_a_scope_beside_an_owning_one_on_the_same_branch_may_not_own() -> None:
    """It would wait for others while it holds keys that those may wait for."""
    found: list[str] = []

    async def work(ctx: Context) -> None:
        async with ctx.scope("one", owns=["x"]):
            try:
                async with ctx.scope("two", owns=["y"]):
                    pass
            except NotOwned as refused:
                found.append(str(refused))

    await run(Team("t", members=[WorkLog().member("a")], strategy=side_by_side(work)))
    assert "open it from the context of that owning scope" in found[0]


async def test_branches_of_an_outer_context_within_an_owning_scope_may_not_own() -> None:
    """They would wait for the scope, and the scope for them."""
    work_log = WorkLog()
    a, b = work_log.member("a"), work_log.member("b")

    async def confused(ctx: Context) -> None:
        async with ctx.scope("one", owns=["x"]), ctx.branches(1) as branches:
            branches.start("inner", owner(a, "x"))

    async def sound(ctx: Context) -> None:
        async with ctx.branches(1) as branches:
            branches.start("inner", owner(b, "y"))
            async with ctx.scope("two", owns=["y"]):
                await ctx.ask(b, Turn("x"), key="k")

    for strategy, words in ((side_by_side(confused), "of which its context knows nothing"), (side_by_side(sound), "")):
        result, _ = await run(Team("t", members=[a, b], strategy=strategy))
        assert words in (result.failure.message if result.failure else "")
    assert work_log.log == ["b", "b"]


async def test_an_agent_owns_nothing_itself() -> None:
    async def greedy(turn: Turn, ctx: Context) -> str:
        async with ctx.scope("mine", owns=["x"]):
            return "mine"

    result, _ = await run(FunctionAgent("greedy", greedy))
    assert result.failure is not None
    assert result.failure.error == "not_owned"
    assert "its step does, with  owns" in result.failure.message


async def test_who_is_stopped_or_late_gives_its_keys_back() -> None:
    work_log = WorkLog()
    slow, next_one, last = work_log.member("slow", 30), work_log.member("next"), work_log.member("last")

    async def late(ctx: Context) -> None:
        with pytest.raises(AgentTimeout):
            async with ctx.scope("own", Limits(seconds=0.05), owns=["x"]) as inner:
                await inner.ask(slow, Turn("work"), key="k")

    async def stopped(ctx: Context) -> None:
        async with ctx.branches(2) as branches:
            branches.start("slow", owner(slow, "y"))
            branches.start("waits", owner(slow, "y"))
            await ctx.ask(next_one, Turn("x"), key="k")
            branches.cancel()
        async with ctx.scope("after", owns=["y"]) as inner:
            await inner.ask(last, Turn("x"), key="k")

    strategy = side_by_side(late, owner(next_one, "x"), stopped)
    result, _ = await run(Team("t", members=[slow, next_one, last], strategy=strategy))
    assert result.status == "completed"
    assert work_log.log.count("next") == 2
    assert work_log.log.count("last") == 1


async def test_the_time_of_a_scope_begins_when_it_has_its_keys() -> None:
    work_log = WorkLog()
    a, b = work_log.member("a", 0.2), work_log.member("b")

    async def second(ctx: Context) -> None:
        async with ctx.scope("own", Limits(seconds=0.15), owns=["x"]) as inner:
            await inner.ask(b, Turn("work"), key="k")

    result, _ = await run(Team("t", members=[a, b], strategy=side_by_side(owner(a, "x"), second)))
    assert result.status == "completed"


async def asks(turn: Turn, ctx: Context) -> str:
    return (await ctx.ask_person(Question(text="?"), key="q")).text


async def test_a_run_is_paused_when_waiters_for_keys_wait_behind_a_person() -> None:  # Z-05
    work_log, journal = WorkLog(), MemoryJournal()
    asker, b = FunctionAgent("asker", asks), work_log.member("b")
    team = Team("t", members=[asker, b], strategy=side_by_side(owner(asker, "x"), owner(b, "x")))
    result, _ = await run(team, journal)
    assert (result.status, work_log.log) == ("paused", [])
    async with Engine(journal) as engine:
        (key,) = (await engine.runs.history("r")).questions()
        await engine.runs.answer("r", key, "yes")
        result = await engine.resume("r", team=team)
    assert (result.status, work_log.log) == ("completed", ["b"])
    events = list(await journal.read("r"))
    assert len(held_up(events)) == 1, "a resumed run tells nobody again"


async def test_the_clock_of_a_waiter_for_keys_behind_a_person_is_paused() -> None:
    """The team of the waiting scope has a quarter of a second, and nothing in it can proceed meanwhile."""
    work_log = WorkLog()
    asker, b, c = FunctionAgent("asker", asks), work_log.member("b"), work_log.member("c", 0.6)
    inner = Team("inner", members=[b], strategy=side_by_side(owner(b, "x")), limits=Limits(seconds=0.25))

    async def ask_inner(ctx: Context) -> None:
        await ctx.ask(inner, Turn("go"), key="inner")

    async def busy(ctx: Context) -> None:
        await ctx.ask(c, Turn("go"), key="c")

    team = Team("t", members=[asker, inner, c], strategy=side_by_side(owner(asker, "x"), ask_inner, busy))
    async with Engine("memory") as engine:
        handle = await engine.start(team, "go", run_id="r")
        handle.set_interactive(True)
        await anyio.sleep(0.7)
        await engine.runs.answer("r", "t/b0/own/k/q", "yes")
        with anyio.fail_after(20):
            result = await handle.result()
    assert result.status == "completed"
    assert "b" in work_log.log


async def test_the_next_owner_does_not_depend_on_how_long_others_take_to_stop() -> None:
    """The first two are cancelled; the second ends at once and the first slowly. The waiter for the key of the first
    still goes first, as on replay, where cancelling takes no time."""
    order: list[str] = []
    waiters: set[str] = set()

    async def trigger_when_both_wait(turn: Turn) -> str:
        while len(waiters) < 2:  # noqa: ASYNC110 - each resume waits for it in an event loop of its own
            await anyio.sleep(0.005)
        await anyio.sleep(0.01)
        return ""

    async def reluctant(turn: Turn) -> str:
        try:
            await anyio.sleep(30)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.1)
        return ""

    work_log = WorkLog()
    slow, quick = FunctionAgent("slow", reluctant), work_log.member("quick", 30)
    trigger, a, b = FunctionAgent("trigger", trigger_when_both_wait), work_log.member("a"), work_log.member("b")

    async def stopped(ctx: Context) -> None:
        async with ctx.branches(2) as branches:
            branches.start("slow", owner(slow, "x"))
            branches.start("quick", owner(quick, "y"))
            await ctx.ask(trigger, Turn("go"), key="trigger")
            branches.cancel()

    def waiting(member: Agent, key: str) -> Work:
        async def work(ctx: Context) -> None:
            await ctx.ask(member, Turn("hello"), key="hello")  # so that the others own their keys by now
            waiters.add(member.name)
            async with ctx.scope("own", owns=[key]) as inner:
                order.append(member.name)
                await inner.ask(member, Turn(" ".join(order)), key="k")

        return work

    def team() -> Team:
        strategy = side_by_side(stopped, waiting(a, "x"), waiting(b, "y"))
        return Team("t", members=[slow, quick, trigger, a, b], strategy=strategy)

    journal = MemoryJournal()
    result, events = await run(team(), journal)
    assert (result.status, order) == ("completed", ["a", "b"])
    for at in range(1, len(events)):
        order.clear()
        waiters.clear()
        resumed, _ = await cut_and_resume(team(), at, journal)
        assert resumed.status == "completed"


async def many(size: int) -> int:
    """The number of function calls when this many branches own one key in turn."""
    import sys

    count = 0

    def profile(frame: Any, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "teamwright" in frame.f_code.co_filename

    member = FunctionAgent("m", lambda turn: "ok")

    async def nothing(ctx: Context) -> None:
        async with ctx.scope("own", owns=["k"]):
            pass

    async def ask_first(ctx: Context) -> None:
        async with ctx.scope("own", owns=["k"]) as inner:
            await inner.ask(member, Turn("x"), key="k")

    team = Team("t", members=[member], strategy=side_by_side(ask_first, *[nothing] * size))
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        result, _ = await run(team)
    finally:
        sys.setprofile(before)
    assert result.status == "completed"
    return count


async def test_a_release_does_not_scan_all_waiters() -> None:  # Z-05
    assert await many(800) < 4.5 * await many(200)


def dags(count: int, key: str = "*{}/**") -> Team:
    """Concurrent dags, each with 100 steps that own a key each."""
    agent = FunctionAgent("a", lambda turn: "done")
    inner = list[Team]()
    for number in range(count):
        steps = tuple(Step(id=f"s{n}", agent="a", owns=(key.format(f"{number}x{n}"),)) for n in range(100))
        inner.append(Team(f"t{number}", members=[agent], strategy="dag", options=PlanOptions(steps=steps)))
    outer = PlanOptions(steps=tuple(Step(id=team.name) for team in inner))
    return Team("root", members=inner, strategy="dag", options=outer)


async def test_wildcards_of_all_teams_of_a_run_are_bounded() -> None:  # S-01
    with pytest.raises(ManifestError, match="the steps of all teams in 'root' own 800 keys with wildcards so early"):
        await run(dags(8))
    result, _ = await run(dags(8, "src/{}/**"))
    assert result.status == "completed"


async def test_a_run_that_began_before_the_bound_continues() -> None:
    """A bound that did not exist when a run began must not stop it."""
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(dags(8, "src/{}/**"), "go", run_id="r")
    result, _ = await cut_and_resume(dags(8), 2, journal)
    assert result.status == "completed"


async def test_the_message_about_unowned_keys_is_bounded() -> None:
    inner = Team("inner", members=[FunctionAgent("a", lambda turn: "done")], strategy=side_by_side())

    async def go(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.scope("outer", owns=[f"src/{n}" for n in range(1000)]) as outer:
            with pytest.raises(NotOwned) as caught:
                async with outer.scope("inner", owns=[f"docs/{n}" for n in range(1000)]):
                    pass
        return outcome(str(caught.value))

    result, _ = await run(Team("t", members=[inner], strategy=FunctionStrategy(go)))
    assert "would own 'docs/0', 'docs/1'" in str(result.output)
    assert len(str(result.output)) < 500
