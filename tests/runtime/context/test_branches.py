"""Named branches: concurrent up to a limit, in an order that a resumed run repeats, none left behind."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import anyio
import pytest

from teamwright import Context, Engine, Limits, Message, Reply, RunResult, Team, Turn
from teamwright.agents.agent import Agent
from teamwright.errors import DuplicateKey
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.turns.turn import Failure
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome


def text_of(reply: object) -> str:
    return reply.text if isinstance(reply, Reply) else str(getattr(reply, "error", reply))


def asking(member: Agent) -> Callable[[Context], Awaitable[Reply | Failure]]:
    """The work of a branch that asks one member."""
    return lambda ctx: ctx.ask(member, Turn("x"), key="k")


async def run(strategy: FunctionStrategy) -> tuple[RunResult, MemoryJournal, Team]:
    members = FakeMembers()
    team = Team("t", members=[members.member(f"m{n}", f"said {n}") for n in range(3)], strategy=strategy)
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        return await engine.run(team, "go", run_id="r"), journal, team


def message_of(result: RunResult) -> str:
    assert result.failure is not None
    return result.failure.message


async def test_leaving_the_block_waits_for_all_and_keeps_their_results() -> None:
    async def everybody(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            all_ = [branches.start(member.name, asking(member)) for member in members]
        return outcome(" ".join(text_of(branch.result()) for branch in all_))

    result, _, _ = await run(FunctionStrategy(everybody))
    assert result.output == "said 0 said 1 said 2"


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_no_more_run_at_once_than_allowed(limit: int) -> None:
    running = most = 0

    async def work(ctx: Context) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await ctx.clock.sleep(0.001)
        running -= 1

    async def many(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(limit) as branches:
            for number in range(6):
                branches.start(f"b{number}", work)
        return outcome(str(most))

    result, _, _ = await run(FunctionStrategy(many))
    assert result.output == str(limit)


async def test_a_limit_below_one_is_a_mistake() -> None:
    async def none(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(0):
            return outcome("never")

    result, _, _ = await run(FunctionStrategy(none))
    assert result.status == "failed"
    assert "never run anything" in message_of(result)


async def test_two_branches_of_one_name_are_a_mistake() -> None:
    async def twice(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            branches.start("same", asking(members[0]))
            branches.start("same", asking(members[1]))
        return outcome("never")

    with pytest.raises(DuplicateKey, match="'t/same' is used twice"):
        await run(FunctionStrategy(twice))


async def test_what_a_branch_raises_comes_out_where_its_result_is_looked_at() -> None:
    async def broken(ctx: Context) -> None:
        raise ValueError("bad branch")

    async def seen(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            branch = branches.start("bad", broken)
            try:
                async for one in branches.finished():
                    one.result()
            except ValueError as error:
                return outcome(f"caught {error} {branch.name}")
        return outcome("never")

    result, _, _ = await run(FunctionStrategy(seen))
    assert result.output == "caught bad branch bad"


async def test_an_unread_failure_of_a_branch_fails_the_team() -> None:
    async def broken(ctx: Context) -> None:
        raise ValueError("bad branch")

    async def unseen(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(2) as branches:
            branches.start("bad", broken)
            branches.start("good", asking(members[0]))
        return outcome("never")

    result, _, _ = await run(FunctionStrategy(unseen))
    assert result.status == "failed"
    assert "bad branch" in message_of(result)


async def test_a_branch_that_was_stopped_has_no_result() -> None:
    async def first(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(1) as branches:
            all_ = [branches.start(member.name, asking(member)) for member in members]
            async for _ in branches.finished():
                branches.cancel()
                break
        told: list[str] = []
        for branch in all_:
            try:
                told.append(text_of(branch.result()))
            except LookupError as error:
                told.append(f"{branch.cancelled}: {error}")
        return outcome("; ".join(told))

    result, journal, team = await run(FunctionStrategy(first))
    assert str(result.output).startswith("said 0; True: the branch 'm1' has no result")
    for at in range(2, len(await journal.read("r"))):
        again, _ = await cut_and_resume(team, at, journal)
        assert again.output == result.output


@pytest.mark.parametrize("seed", range(4))
async def test_the_order_of_finishing_is_the_same_after_a_crash_anywhere(seed: int) -> None:
    chance = random.Random(seed)

    def made(slow: bool) -> Team:
        async def answer(turn: Turn) -> str:
            if slow:
                await anyio.sleep(chance.random() / 300)
            return "x"

        async def order(task: Task, members: Members, ctx: Context) -> Outcome:
            names: list[str] = []
            async with ctx.branches(3) as branches:
                for member in members:
                    branches.start(member.name, asking(member))
                async for branch in branches.finished():
                    names.append(branch.name)
                    await ctx.ask(members[0], Turn(" ".join(names)), key=f"after-{len(names)}")
            return outcome(" ".join(names))

        members = FakeMembers()
        return Team("t", members=[members.member(n, answer) for n in "abcde"], strategy=FunctionStrategy(order))

    journal = MemoryJournal()
    async with Engine(journal) as engine:
        whole = await engine.run(made(slow=True), "go", run_id="r")
    events = await journal.read("r")
    for at in range(2, len(events)):
        result, _ = await cut_and_resume(made(slow=False), at, journal)
        ended = [e.scope.split("/")[1] for e in events[:at] if e.kind == "agent.replied" and e.place == "k"]
        assert str(result.output).split()[: len(ended)] == ended
        if len(ended) == 5:
            assert result.output == whole.output


async def test_what_branches_said_is_kept_when_time_runs_out() -> None:
    async def hang(turn: Turn) -> str:
        await anyio.sleep(60)
        return "never"

    async def everybody(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(3) as branches:
            for member in members:
                branches.start(member.name, asking(member))
        return outcome("never")

    members = FakeMembers()
    agents = [members.member("quick", "said"), members.member("slow", hang)]
    team = Team("t", members=agents, strategy=FunctionStrategy(everybody), limits=Limits(seconds=0.1))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "go", run_id="r")
    assert result.status == "timeout"
    assert result.messages == (Message(name="quick", content="said"),)
    for at in range(2, len(await journal.read("r"))):
        again, _ = await cut_and_resume(team, at, journal)
        assert (again.status, again.messages) == (result.status, result.messages)


async def test_branches_are_stopped_in_the_order_of_their_start() -> None:
    async def hang(turn: Turn) -> str:
        await anyio.sleep(60)
        return "never"

    async def stop_all(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(len(members)) as branches:
            for member in members[1:]:
                branches.start(member.name, asking(member))
            await ctx.ask(members[0], Turn("x"), key="first")
            branches.cancel()
        return outcome("stopped")

    async def a_little_later(turn: Turn) -> str:
        await anyio.sleep(0.02)
        return "done"

    counting = FakeMembers()
    agents = [counting.member("first", a_little_later), *(counting.member(f"m{n:02}", hang) for n in range(30))]
    async with Engine("memory") as engine:
        await engine.run(Team("t", members=agents, strategy=FunctionStrategy(stop_all)), "go", run_id="r")
        failed = [event.scope for event in await engine.journal.read("r") if event.kind == "agent.failed"]
    assert failed == [f"t/m{n:02}" for n in range(30)]


async def test_a_branch_that_is_cancelled_from_inside_is_an_error_and_does_not_hang() -> None:
    async def await_what_was_cancelled(inner: Context) -> None:
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone

    async def strategy(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.branches(1) as branches:
            branches.start("b", await_what_was_cancelled)
        return outcome("done")

    with anyio.fail_after(10):
        result, _, _ = await run(FunctionStrategy(strategy))
    assert result.status == "failed"
    assert "'b' was cancelled from inside" in message_of(result)


async def test_branches_that_may_ask_are_counted_once_and_only_while_they_run() -> None:  # Z-10
    counted: list[int] = []

    async def nested(task: Task, members: Members, ctx: Context) -> Outcome:
        account = ctx._scope.account  # pyright: ignore[reportAttributeAccessIssue]

        async def leaf(inner: Context) -> None:
            await anyio.sleep(0.01)
            counted.append(account.branches)
            await anyio.sleep(0.01)

        async def outer(middle: Context) -> None:
            async with middle.branches(3) as branches:
                for number in range(3):
                    branches.start(f"leaf-{number}", leaf)

        async with ctx.branches(2) as branches:
            for number in range(2):
                branches.start(f"outer-{number}", outer)
        counted.append(account.branches)
        return outcome("done")

    team = Team("t", members=[FakeMembers().member("m", "x")], strategy=FunctionStrategy(nested))
    team.policy = team.policy.changed(limits=Limits(tokens=1000))
    async with Engine("memory") as engine:
        await engine.run(team, "go")
    assert counted == [6] * 6 + [0]
