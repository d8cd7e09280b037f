"""One thing at a time, in journal order, and only when every branch waits."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from teamwright import Context, Engine, Team, Turn
from teamwright.errors import NonDeterminism
from teamwright.journal.memory import MemoryJournal
from teamwright.runtime.ordering.delivery import Turnstile
from teamwright.runtime.ordering.lane import Lane
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from tests.runtime.teams import Counting, Written, cut_and_resume, says


class Watching:
    """A turnstile that writes down what it is told."""

    def __init__(self, *recorded: str, strict: bool = True) -> None:
        self.stuck: list[tuple[str, list[str]]] = []
        self.caught_up = 0
        self.turnstile = Turnstile(recorded, self._stuck, self._caught)
        self._strict = strict

    def _stuck(self, recorded: str, waiting: list[str]) -> None:
        self.stuck.append((recorded, waiting))
        if self._strict:
            raise LookupError(recorded)

    def _caught(self) -> None:
        self.caught_up += 1


async def quiet() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def arriving(turnstile: Turnstile, lane: Lane, key: str, order: list[str]) -> asyncio.Task[None]:
    async def go() -> None:
        await turnstile.arrive(lane, key, "")
        order.append(key)
        turnstile.park(lane)

    return asyncio.get_running_loop().create_task(go())


async def test_recorded_things_are_delivered_in_recorded_order() -> None:
    watching, order = Watching("a", "b", "c"), list[str]()
    turnstile = watching.turnstile
    lanes = {key: turnstile.open_lane() for key in "cba"}
    tasks = [arriving(turnstile, lane, key, order) for key, lane in lanes.items()]
    assert turnstile.replaying
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]
    assert not turnstile.replaying
    assert watching.caught_up == 1


async def test_nothing_is_delivered_while_a_branch_is_at_work() -> None:
    turnstile, order = Watching("a").turnstile, list[str]()
    waiting, busy = turnstile.open_lane(), turnstile.open_lane()
    task = arriving(turnstile, waiting, "a", order)
    await asyncio.sleep(0)
    assert order == []
    turnstile.park(busy)
    await task
    assert order == ["a"]


async def test_a_branch_that_waits_by_its_own_means_counts_as_waiting_once_all_is_quiet() -> None:
    turnstile, order = Watching("a").turnstile, list[str]()
    waiting, _locked = turnstile.open_lane(), turnstile.open_lane()
    await arriving(turnstile, waiting, "a", order)
    assert order == ["a"]


async def test_new_things_are_delivered_in_the_order_in_which_they_are_announced() -> None:
    turnstile, order = Watching().turnstile, list[str]()
    lanes = {key: turnstile.open_lane() for key in "ab"}
    turnstile.announce("b")
    turnstile.announce("a")
    await asyncio.gather(*[arriving(turnstile, lane, key, order) for key, lane in lanes.items()])
    assert order == ["b", "a"]


async def test_all_waiting_but_not_for_what_is_next_is_told_with_both_sides() -> None:
    watching = Watching("a")
    lane = watching.turnstile.open_lane()
    with pytest.raises(LookupError, match="a"):
        await watching.turnstile.arrive(lane, "b", "")
    assert watching.stuck == [("a", ["b"])]


async def test_what_is_next_may_be_passed_over() -> None:
    watching, order = Watching("gone", "b", strict=False), list[str]()
    lane = watching.turnstile.open_lane()
    await arriving(watching.turnstile, lane, "b", order)
    assert order == ["b"]
    assert [recorded for recorded, _ in watching.stuck] == ["gone"]


async def test_what_was_passed_over_and_is_asked_for_after_all_does_not_wait_for_ever() -> None:  # S-08
    watching, order = Watching("late", "b", strict=False), list[str]()
    lane = watching.turnstile.open_lane()
    await arriving(watching.turnstile, lane, "b", order)
    async with asyncio.timeout(5):
        await arriving(watching.turnstile, lane, "late", order)
    assert order == ["b", "late"]


async def test_nothing_is_judged_while_an_agent_is_busy() -> None:
    watching = Watching("a")
    turnstile = watching.turnstile
    busy = turnstile.open_lane()
    turnstile.enter_agent(busy, "agent")
    await quiet()
    assert watching.stuck == []


async def test_who_is_caught_up_waits_for_the_last_recorded_thing() -> None:
    watching, order = Watching("a"), list[str]()
    turnstile = watching.turnstile
    one, other = turnstile.open_lane(), turnstile.open_lane()
    turnstile.enter_agent(other, "agent")

    async def live() -> None:
        await turnstile.caught_up(other, "agent")
        order.append("live")

    await asyncio.gather(asyncio.create_task(live()), arriving(turnstile, one, "a", order))
    assert order == ["a", "live"]
    await turnstile.caught_up(other, "agent")


async def test_something_withdrawn_is_dropped_and_the_rest_goes_on() -> None:
    watching, order = Watching("a", "b"), list[str]()
    turnstile = watching.turnstile
    lane = turnstile.open_lane()
    turnstile.withdraw("a")
    await arriving(turnstile, lane, "b", order)
    assert order == ["b"]
    assert watching.caught_up == 1


async def test_an_action_is_done_when_its_turn_comes() -> None:
    watching, order = Watching("a", "b"), list[str]()
    turnstile = watching.turnstile
    lane = turnstile.open_lane()
    turnstile.expect("b", lambda: order.append("act"))
    await arriving(turnstile, lane, "a", order)
    await quiet()
    assert order == ["a", "act"]


async def test_nothing_goes_on_while_something_is_being_stopped() -> None:
    turnstile, order = Watching("a").turnstile, list[str]()
    stopped, waiting = turnstile.open_lane(), turnstile.open_lane()
    turnstile.park(stopped)
    turnstile.unwind(stopped)
    task = arriving(turnstile, waiting, "a", order)
    await quiet()
    assert order == []
    turnstile.unwound()
    turnstile.close_lane(stopped)
    await task
    assert order == ["a"]


async def test_being_idle_is_told_when_a_person_is_asked_and_every_branch_waits() -> None:
    turnstile = Watching().turnstile
    told: list[bool] = []
    turnstile.when_idle = lambda: told.append(True)
    one, other = turnstile.open_lane(), turnstile.open_lane()
    assert not turnstile.lone
    turnstile.park(one)
    turnstile.park(other)
    assert told == []
    turnstile.people_asked = 1
    turnstile.park(other)
    assert told == []
    await quiet()
    assert told == [True]
    turnstile.people_asked = 0
    turnstile.close_lane(other)
    assert turnstile.lone


async def test_a_wait_that_is_cancelled_is_forgotten() -> None:
    turnstile, order = Watching().turnstile, list[str]()
    one, other = turnstile.open_lane(), turnstile.open_lane()
    turnstile.park(other)
    waiting = arriving(turnstile, one, "a", order)
    await quiet()
    waiting.cancel()
    await quiet()
    turnstile.park(one)
    turnstile.announce("b")
    await arriving(turnstile, other, "b", order)
    assert order == ["b"]


async def test_what_nobody_asks_for_is_passed_over_while_a_branch_waits_for_another_by_its_own_means() -> None:
    watching, order = Watching("gone", "a", strict=False), list[str]()
    turnstile = watching.turnstile
    waiting, _locked = turnstile.open_lane(), turnstile.open_lane()
    task = arriving(turnstile, waiting, "a", order)
    await quiet()
    await quiet()
    assert watching.stuck == [("gone", ["a"])]
    assert order == ["a"]
    await task


async def test_a_record_that_nobody_asks_for_is_told_also_where_branches_wait_for_each_other() -> None:
    async def in_turns(task: Task, members: Members, ctx: Context) -> Outcome:
        done = anyio.Event()

        async def first(inner: Context) -> None:
            await inner.ask(members[0], Turn(task.text), key=key)
            await inner.ask(members[0], Turn(task.text), key="more")
            done.set()

        async with ctx.branches(2) as branches:
            branches.start("first", first)
            branches.start("second", lambda inner: done.wait())
        return says("done")

    key, journal = "before", MemoryJournal()
    team = Team("t", members=[Counting().agent("a")], strategy=Written(in_turns))
    async with Engine(journal) as engine:
        await engine.run(team, "go", run_id="r")
    events = await journal.read("r")
    answered = next(event.number for event in events if event.kind == "agent.replied")
    key = "after"
    with pytest.raises(NonDeterminism, match="that 't/first/before' came next"):
        await cut_and_resume(team, answered, journal)
    async with Engine(journal) as engine:
        await engine.fork("r", at=answered, task="other", team=team, new_id="f")
    events = await journal.read("f")
    for at in range(next(event.number for event in events if event.kind == "run.resumed"), len(events)):
        result, _ = await cut_and_resume(team, at, journal, "f")
        assert result.output == "done"


async def test_before_the_first_branch_has_begun_nothing_is_judged() -> None:
    watching = Watching("a")
    watching.turnstile.look_again()
    await quiet()
    assert not watching.stuck
