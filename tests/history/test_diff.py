"""What two runs have in common and where they diverge."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Reply, Team, Turn
from teamwright.history.diff import RunDiff, compare
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.usage_and_prices import Usage
from tests.kit.strategies import FunctionStrategy, outcome


def agent(name: str, *answers: str, fails: bool = False) -> FunctionAgent:
    said = list(answers)

    async def respond(turn: Turn) -> Reply:
        if fails:
            raise ValueError("broken")
        text = said.pop(0) if len(said) > 1 else said[0]
        return Reply.of(name, text, usage=Usage(requests=1, input_tokens=4, usd=0.25))

    return FunctionAgent(name, respond)


async def compared(engine: Engine, a: str = "a", b: str = "b") -> RunDiff:
    return compare(
        await engine.runs.history(a),
        await engine.runs.history(b),
        await engine.runs.result(a),
        await engine.runs.result(b),
    )


def hows(found: RunDiff) -> list[tuple[str, str, str]]:
    return [(turn.key, turn.member, turn.how) for turn in found.turns]


async def test_two_runs_with_the_same_result_do_not_differ() -> None:  # P-09
    team = Team("t", members=[agent("x", "one"), agent("y", "two")])
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="a")
        await engine.run(team, "go", run_id="b")
        found = await compared(engine)
    assert (found.same, found.same_task, found.common, found.first_difference) == (True, True, 2, None)
    assert found.changes == ()
    assert [(one.member, one.same, one.a, one.b) for one in found.members] == [
        ("x", 1, found.members[0].a, found.members[0].a), ("y", 1, found.members[1].a, found.members[1].a)
    ]  # fmt: skip
    assert (found.members[0].a.total_tokens, found.members[0].a.usd, found.members[0].a.status) == (4, 0.25, "replied")


async def test_the_first_turn_that_differs_is_found_and_later_turns_follow_from_it() -> None:  # P-09
    team = Team("t", members=[agent("x", "one"), agent("y", "two", "three"), agent("z", "four")])
    async with Engine("memory") as engine:
        await engine.run(team, "go", run_id="a")
        await engine.run(team, "go", run_id="b")
        found = await compared(engine)
    assert hows(found) == [("t/step-1", "x", "same"), ("t/step-2", "y", "said"), ("t/step-3", "z", "told")]
    first = found.first_difference
    assert first is not None
    assert first.a is not None
    assert first.b is not None
    assert (first.key, first.a.text, first.b.text) == ("t/step-2", "two", "three")
    assert not found.same
    assert found.to_json()["first_difference"] == first.to_json()


async def test_a_fork_and_its_origin_share_their_past() -> None:  # P-09
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[agent("x", "one"), agent("y", "", fails=True)]), "go", run_id="a")
        mended = Team("t", members=[agent("x", "never"), agent("y", "mended")])
        await engine.fork("a", retry=True, team=mended, new_id="b")
        found = await compared(engine)
    assert hows(found) == [("t/step-1", "x", "same"), ("t/step-2", "y", "status")]
    assert found.b.origin is not None
    assert (found.b.origin.run_id, found.a.status, found.b.status) == ("a", "failed", "completed")
    failed = found.turns[1].a
    assert failed is not None
    assert (failed.status, failed.text) == ("failed", "error: ValueError: broken")


@pytest.mark.parametrize("task", [None, "other"])
async def test_a_superseding_ask_is_compared_with_the_superseded_one(task: str | None) -> None:  # P-09
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=[agent("x", "one"), agent("y", "two"), agent("z", "end")]), "go", run_id="a")
        changed = Team("t", members=[agent("x", "one"), agent("w", "else"), agent("z", "end")])
        await engine.fork("a", at="step-3", team=changed, task=task, new_id="b")
        found = await compared(engine)
    first = "same" if task is None else "told"
    assert hows(found) == [("t/step-1", "x", first), ("t/step-2", "y", "member"), ("t/step-3", "z", "told")]
    assert (found.a.turns, found.b.turns) == (3, 3)


async def test_another_task_and_another_declaration_are_reported() -> None:
    short = Team("t", members=[agent("x", "one")])
    long = Team("t", members=[agent("x", "one"), agent("y", "two")], share="output")
    async with Engine("memory") as engine:
        await engine.run(short, "go", run_id="a")
        await engine.run(long, "stay", run_id="b")
        found = await compared(engine)
    assert not found.same_task
    assert hows(found) == [("t/step-1", "x", "told"), ("t/step-2", "y", "only_b")]
    assert {change.path for change in found.changes} >= {"teams.t.members", "teams.t.share", "agents.y"}
    assert found.members[1].a.turns == 0
    assert found.members[1].a.status is None


async def test_another_member_at_the_same_key_and_a_turn_of_one_run_alone_are_reported() -> None:
    async def first_only(task: Task, members: Members, ctx: Context) -> Outcome:
        await ctx.ask(members[0], Turn(task.text), key="early")
        await ctx.ask(members[0], Turn(task.text), key="place")
        return outcome("end")

    async def second_only(task: Task, members: Members, ctx: Context) -> Outcome:
        await ctx.ask(members[1], Turn(task.text), key="place")
        await ctx.ask(members[1], Turn(task.text), key="late")
        return outcome("end")

    members = [agent("x", "one"), agent("y", "two")]
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=members, strategy=FunctionStrategy(first_only)), "go", run_id="a")
        await engine.run(Team("t", members=members, strategy=FunctionStrategy(second_only)), "go", run_id="b")
        found = await compared(engine)
    assert hows(found) == [("t/early", "x", "only_a"), ("t/place", "x", "member"), ("t/late", "y", "only_b")]


def branching(order: str) -> Callable[[Task, Members, Context], Awaitable[Outcome]]:
    async def side_by_side(task: Task, members: Members, ctx: Context) -> Outcome:
        by_name = {member.name: member for member in members}
        async with ctx.branches(3) as branches:
            for name in order:
                branches.start(name, lambda inner, name=name: inner.ask(by_name[name], Turn(task.text), key="k"))
        return outcome("end")

    return side_by_side


async def test_branches_that_ran_in_another_order_are_no_difference() -> None:
    members = [agent(name, name) for name in "xyz"]
    async with Engine("memory") as engine:
        for run_id, order in (("a", "xyz"), ("b", "zxy")):
            await engine.run(
                Team("t", members=members, strategy=FunctionStrategy(branching(order))), "go", run_id=run_id
            )
        found = await compared(engine)
    assert found.same


@pytest.mark.parametrize("how", ["open", "stopped"])
async def test_a_turn_in_flight_and_a_cancelled_one_are_distinguished_from_a_reply(how: str) -> None:
    async def slow(turn: Turn) -> str:
        await anyio.sleep(60)
        return "never"

    inner = Team("inner", members=[FunctionAgent("y", slow)])
    async with Engine("memory") as engine:
        handle = await engine.start(Team("t", members=[agent("x", "one"), inner]), "go", run_id="a")
        await anyio.sleep(0.05)
        if how == "stopped":
            await engine.runs.cancel("a")
        else:
            handle.interrupt()
        await handle.result()
        other = Team("inner", members=[agent("y", "done")])
        await engine.run(Team("t", members=[agent("x", "one"), other]), "go", run_id="b")
        found = await compared(engine)
    last = found.turns[-1]
    assert last.a is not None
    assert (last.key, last.how, last.a.status) == ("t/step-2/step-1", "status", how)
