"""One delivery at a time, in journal order, and only when every branch waits."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from teamwright import Context, Engine, Team, Turn
from teamwright.errors import NonDeterminism
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.runtime.ordered_delivery import Lane, OrderedDelivery
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome


class Watching:
    """A delivery that records what it receives."""

    def __init__(self, *recorded: str, strict: bool = True) -> None:
        self.stuck: list[tuple[str, list[str]]] = []
        self.caught_up = 0
        self.delivery = OrderedDelivery(recorded, self._stuck, self._caught)
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


def arriving(delivery: OrderedDelivery, lane: Lane, key: str, order: list[str]) -> asyncio.Task[None]:
    async def go() -> None:
        await delivery.wait_turn(lane, key, "")
        order.append(key)
        delivery.park(lane)

    return asyncio.get_running_loop().create_task(go())


async def test_recorded_things_are_delivered_in_recorded_order() -> None:
    watching, order = Watching("a", "b", "c"), list[str]()
    delivery = watching.delivery
    lanes = {key: delivery.open_lane() for key in "cba"}
    tasks = [arriving(delivery, lane, key, order) for key, lane in lanes.items()]
    assert delivery.is_replaying
    await asyncio.gather(*tasks)
    assert order == ["a", "b", "c"]
    assert not delivery.is_replaying
    assert watching.caught_up == 1


async def test_nothing_is_delivered_while_a_branch_is_at_work() -> None:
    delivery, order = Watching("a").delivery, list[str]()
    waiting, busy = delivery.open_lane(), delivery.open_lane()
    task = arriving(delivery, waiting, "a", order)
    await asyncio.sleep(0)
    assert order == []
    delivery.park(busy)
    await task
    assert order == ["a"]


async def test_a_branch_that_waits_by_its_own_means_counts_as_waiting_once_all_is_quiet() -> None:
    delivery, order = Watching("a").delivery, list[str]()
    waiting, _locked = delivery.open_lane(), delivery.open_lane()
    await arriving(delivery, waiting, "a", order)
    assert order == ["a"]


async def test_new_things_are_delivered_in_the_order_in_which_they_are_announced() -> None:
    delivery, order = Watching().delivery, list[str]()
    lanes = {key: delivery.open_lane() for key in "ab"}
    delivery.enqueue("b")
    delivery.enqueue("a")
    await asyncio.gather(*[arriving(delivery, lane, key, order) for key, lane in lanes.items()])
    assert order == ["b", "a"]


async def test_all_waiting_but_not_for_what_is_next_is_reported_with_both_sides() -> None:
    watching = Watching("a")
    lane = watching.delivery.open_lane()
    with pytest.raises(LookupError, match="a"):
        await watching.delivery.wait_turn(lane, "b", "")
    assert watching.stuck == [("a", ["b"])]


async def test_what_is_next_may_be_passed_over() -> None:
    watching, order = Watching("gone", "b", strict=False), list[str]()
    lane = watching.delivery.open_lane()
    await arriving(watching.delivery, lane, "b", order)
    assert order == ["b"]
    assert [recorded for recorded, _ in watching.stuck] == ["gone"]


async def test_what_was_passed_over_and_is_asked_for_after_all_does_not_wait_for_ever() -> None:  # S-08
    watching, order = Watching("late", "b", strict=False), list[str]()
    lane = watching.delivery.open_lane()
    await arriving(watching.delivery, lane, "b", order)
    async with asyncio.timeout(5):
        await arriving(watching.delivery, lane, "late", order)
    assert order == ["b", "late"]


async def test_nothing_is_judged_while_an_agent_is_busy() -> None:
    watching = Watching("a")
    delivery = watching.delivery
    busy = delivery.open_lane()
    delivery.enter_agent(busy, "agent")
    await quiet()
    assert watching.stuck == []


async def test_who_is_caught_up_waits_for_the_last_recorded_thing() -> None:
    watching, order = Watching("a"), list[str]()
    delivery = watching.delivery
    one, other = delivery.open_lane(), delivery.open_lane()
    delivery.enter_agent(other, "agent")

    async def live() -> None:
        await delivery.wait_caught_up(other, "agent")
        order.append("live")

    await asyncio.gather(asyncio.create_task(live()), arriving(delivery, one, "a", order))
    assert order == ["a", "live"]
    await delivery.wait_caught_up(other, "agent")


async def test_something_withdrawn_is_dropped_and_the_rest_continues() -> None:
    watching, order = Watching("a", "b"), list[str]()
    delivery = watching.delivery
    lane = delivery.open_lane()
    delivery.withdraw("a")
    await arriving(delivery, lane, "b", order)
    assert order == ["b"]
    assert watching.caught_up == 1


async def test_an_action_is_done_when_its_turn_comes() -> None:
    watching, order = Watching("a", "b"), list[str]()
    delivery = watching.delivery
    lane = delivery.open_lane()
    delivery.call_in_turn("b", lambda: order.append("act"))
    await arriving(delivery, lane, "a", order)
    await quiet()
    assert order == ["a", "act"]


async def test_nothing_continues_while_something_is_being_stopped() -> None:
    delivery, order = Watching("a").delivery, list[str]()
    stopped, waiting = delivery.open_lane(), delivery.open_lane()
    delivery.park(stopped)
    delivery.begin_unwind(stopped)
    task = arriving(delivery, waiting, "a", order)
    await quiet()
    assert order == []
    delivery.end_unwind()
    delivery.close_lane(stopped)
    await task
    assert order == ["a"]


async def test_the_run_is_idle_when_a_person_is_asked_and_every_branch_waits() -> None:
    delivery = Watching().delivery
    told: list[bool] = []
    delivery.when_idle = lambda: told.append(True)
    one, other = delivery.open_lane(), delivery.open_lane()
    assert delivery.open_lanes > 1
    delivery.park(one)
    delivery.park(other)
    assert told == []
    delivery.outside_waits = 1
    delivery.park(other)
    assert told == []
    await quiet()
    assert told == [True]
    delivery.outside_waits = 0
    delivery.close_lane(other)
    assert delivery.open_lanes == 1


async def test_a_wait_that_is_cancelled_is_forgotten() -> None:
    delivery, order = Watching().delivery, list[str]()
    one, other = delivery.open_lane(), delivery.open_lane()
    delivery.park(other)
    waiting = arriving(delivery, one, "a", order)
    await quiet()
    waiting.cancel()
    await quiet()
    delivery.park(one)
    delivery.enqueue("b")
    await arriving(delivery, other, "b", order)
    assert order == ["b"]


async def test_an_unawaited_record_is_skipped_while_branches_wait_for_each_other() -> None:
    watching, order = Watching("gone", "a", strict=False), list[str]()
    delivery = watching.delivery
    waiting, _locked = delivery.open_lane(), delivery.open_lane()
    task = arriving(delivery, waiting, "a", order)
    await quiet()
    await quiet()
    assert watching.stuck == [("gone", ["a"])]
    assert order == ["a"]
    await task


async def test_an_unawaited_record_is_reported_also_where_branches_wait_for_each_other() -> None:
    async def in_turns(task: Task, members: Members, ctx: Context) -> Outcome:
        done = anyio.Event()

        async def first(inner: Context) -> None:
            await inner.ask(members[0], Turn(task.text), key=key)
            await inner.ask(members[0], Turn(task.text), key="more")
            done.set()

        async with ctx.branches(2) as branches:
            branches.start("first", first)
            branches.start("second", lambda inner: done.wait())
        return outcome("done")

    key, journal = "before", MemoryJournal()
    team = Team("t", members=[FakeMembers().member("a")], strategy=FunctionStrategy(in_turns))
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
    watching.delivery.check_idle()
    await quiet()
    assert not watching.stuck
