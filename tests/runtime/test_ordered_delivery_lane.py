"""Clocks pause while everything in their scope waits for people, whatever happens elsewhere."""

from __future__ import annotations

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Limits, RunResult, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.people import Question
from teamwright.runtime.ordered_delivery import Lane, update_timers, waiting_for_provider
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.events.run import ScopeWaited
from teamwright.values.people import Confirm
from teamwright.values.turns.turn import Failure
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome

SHORT = Limits(seconds=0.25)
LONGER = 0.6


class Watch:
    """A clock that reports whether it runs."""

    def __init__(self, lane: Lane, *, of_work: bool = False) -> None:
        self.runs = True
        if of_work:
            lane.work_timers = (*lane.work_timers, self)
        else:
            lane.timers = (*lane.timers, self)

    def pause_timer(self) -> None:
        self.runs = False

    def resume_timer(self) -> None:
        self.runs = True


def test_a_clock_of_work_also_stands_still_while_every_branch_waits_for_a_provider() -> None:
    root = Lane(1)
    one, other = Lane(2, root), Lane(3, root)
    plain, work = Watch(root), Watch(root, of_work=True)
    root.open_children, root.waits_for_children = 2, True
    with waiting_for_provider(one):
        assert (plain.runs, work.runs) == (True, True)  # the other branch works
        other.outside_waits += 1
        update_timers(other)
        assert (plain.runs, work.runs) == (True, False)
        with waiting_for_provider(one):
            assert not work.runs
        assert not work.runs
    assert (plain.runs, work.runs) == (True, True)
    one.outside_waits += 1
    update_timers(one)
    assert (plain.runs, work.runs) == (False, False)


def test_a_branch_stands_still_with_all_of_its_branches() -> None:
    root = Lane(1)
    inner, other = Lane(2, root), Lane(3, root)
    leaf = Lane(4, inner)
    timers = [Watch(lane) for lane in (root, inner, other, leaf)]

    def running() -> list[bool]:
        return [clock.runs for clock in timers]

    root.open_children, inner.open_children, root.waits_for_children, inner.waits_for_children = 2, 1, True, True
    leaf.outside_waits += 1
    update_timers(leaf)
    assert running() == [True, False, True, False]
    other.outside_waits += 1
    update_timers(other)
    assert running() == [False, False, False, False]
    leaf.outside_waits -= 1
    update_timers(leaf)
    assert running() == [True, True, False, True]
    root.waits_for_children = False
    other.outside_waits -= 1
    update_timers(other)
    assert running() == [True, True, True, True]


async def asking(turn: Turn, ctx: Context) -> str:
    return (await ctx.ask_person(Question(text="?"), key="q")).text


async def all_at_once(task: Task, members: Members, ctx: Context) -> Outcome:
    """Ask every member in a separate branch, and return which ones were late."""
    async with ctx.branches(9) as branches:
        started = [
            branches.start(one.name, lambda inner, one=one: inner.ask(one, Turn("x"), key="k")) for one in members
        ]
    replies = [branch.result() for branch in started]
    return outcome(" ".join("late" if isinstance(reply, Failure) else reply.text for reply in replies))


async def slow(turn: Turn) -> str:
    await anyio.sleep(LONGER)
    return "slow"


async def answered(team: Team, keys: list[str], journal: MemoryJournal | None = None, answer: str = "yes") -> RunResult:
    """Run, and answer these keys once the slow member is done or they have waited long enough."""
    async with Engine(journal or MemoryJournal()) as engine:
        handle = await engine.start(team, "go", run_id="r")
        handle.set_interactive(True)
        await anyio.sleep(LONGER + 0.1)
        for key in keys:
            await engine.runs.answer("r", key, answer)
        with anyio.fail_after(20):
            return await handle.result()


def agent(name: str, limits: Limits | None = SHORT) -> FunctionAgent:
    return FunctionAgent(name, asking, limits=limits)


async def test_the_time_of_a_member_that_waits_stands_still_while_another_works() -> None:
    team = Team("t", members=[agent("a"), FunctionAgent("b", slow)], strategy=FunctionStrategy(all_at_once))
    result = await answered(team, ["t/a/k/q"])
    assert result.output == "yes slow"


async def test_the_time_of_a_team_stands_still_when_all_its_branches_wait() -> None:
    inner = Team(
        "inner", members=[agent("a", None), agent("b", None)], strategy=FunctionStrategy(all_at_once), limits=SHORT
    )
    team = Team("t", members=[inner, FunctionAgent("c", slow)], strategy=FunctionStrategy(all_at_once))
    result = await answered(team, ["t/inner/k/a/k/q", "t/inner/k/b/k/q"])
    assert result.output == "yes yes slow"


async def test_the_time_of_a_team_continues_while_one_of_its_branches_works() -> None:
    inner = Team(
        "inner",
        members=[agent("a", None), FunctionAgent("c", slow)],
        strategy=FunctionStrategy(all_at_once),
        limits=SHORT,
    )
    result = await answered(Team("t", members=[inner], strategy=FunctionStrategy(all_at_once)), [])
    assert result.output == "late"


@pytest.mark.parametrize("points", [Confirm(before=True), Confirm(after=True)])
async def test_waiting_for_an_approval_is_no_time_of_the_team_or_the_run(points: Confirm) -> None:
    member = FunctionAgent("a", lambda turn: "done", confirm=points, limits=SHORT)
    journal = MemoryJournal()
    place = "before" if points.before else "after"
    result = await answered(
        Team("t", members=[member], limits=SHORT), [f"t/step-1/confirm-{place}"], journal, "approve"
    )
    assert result.output == "done"
    assert result.seconds < LONGER
    async with Engine(journal) as engine:
        (summary,) = await engine.runs.list()
        assert summary.seconds == pytest.approx(result.seconds)
        waited = [e for e in await engine.journal.read("r") if isinstance(e.fact, ScopeWaited)]
    assert {"", "t"} <= {event.scope for event in waited}


async def test_a_resumed_scope_has_the_time_that_it_has_not_used() -> None:
    """It waited for a person while another branch worked; then the driver ended, and the wait is recorded."""
    members: list[Agent] = [agent("a"), FunctionAgent("b", slow)]

    team, journal = Team("t", members=members, strategy=FunctionStrategy(all_at_once)), MemoryJournal()
    async with Engine(journal) as engine:
        paused = await engine.run(team, "go", run_id="r")
        assert paused.status == "paused"
        waited = {e.scope: e.fact.seconds for e in await journal.read("r") if isinstance(e.fact, ScopeWaited)}
        assert waited["t/a/k"] > LONGER / 2
        await engine.runs.answer("r", "t/a/k/q", "yes")
        assert (await engine.resume("r", team=team)).output == "yes slow"
    log = await journal.read("r")
    for at in range(1, len(log)):
        again, _ = await cut_and_resume(team, at, journal)
        assert again.output == "yes slow", f"cut after {at}"
