"""Limits on seconds: of an agent, a team and a scope; nested; and with less time left after a resume."""

from __future__ import annotations

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, Limits, Reply, Team, Turn
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import AgentTimeout
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.strategies import Outcome, Task
from teamwright.strategies.protocol import Members
from teamwright.values.people import Question
from teamwright.values.turns.turn import Failure
from tests.kit.members import FakeMembers
from tests.kit.records import cut_and_resume
from tests.kit.strategies import FunctionStrategy, outcome


async def hang(turn: Turn) -> str:
    await anyio.sleep(60)
    return "never"


def hanging(name: str, seconds: float | None = None) -> FunctionAgent:
    return FunctionAgent(name, hang, limits=Limits(seconds=seconds) if seconds else None)


async def test_a_member_that_uses_up_its_time_fails() -> None:
    team = Team("t", members=[FakeMembers().member("a"), hanging("b", 0.05)])
    async with Engine("memory") as engine:
        result = await engine.run(team, "go")
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert result.failure is not None
    assert (result.failure.error, result.failure.message) == ("timeout", "'b' failed: 'b' used up its 0.05 seconds")
    assert [message.name for message in result.messages] == ["a"]


async def test_a_nested_team_that_uses_up_its_time_keeps_the_messages() -> None:
    inner = Team("inner", members=[FakeMembers().member("a"), hanging("b")], limits=Limits(seconds=0.05))
    async with Engine("memory") as engine:
        result = await engine.run(Team("outer", members=[inner, FakeMembers().member("c")]), "go")
    assert (result.status, result.stop_reason) == ("timeout", "deadline")
    assert [message.content for message in result.messages] == ["a is done"]


@pytest.mark.parametrize(("outer", "inner", "who"), [(0.05, 30.0, "outer"), (30.0, 0.05, "inner")])
async def test_the_tighter_of_two_deadlines_wins(outer: float, inner: float, who: str) -> None:
    async def nested(task: Task, members: Members, ctx: Context) -> Outcome:
        try:
            async with ctx.scope("outer", Limits(seconds=outer)) as around:
                try:
                    async with around.scope("inner", Limits(seconds=inner)) as within:
                        await within.ask(members[0], Turn(task.text), key="k")
                except AgentTimeout:
                    return outcome("inner")
        except AgentTimeout:
            return outcome("outer")
        return outcome("neither")

    team = Team("t", members=[hanging("a")], strategy=FunctionStrategy(nested))
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        result = await engine.run(team, "go", run_id="r")
    assert result.output == who
    events = await journal.read("r")
    expired = next(event.number for event in events if event.kind == "run.expired")
    for at in range(expired, len(events)):
        again, _ = await cut_and_resume(team, at, journal)
        assert again.output == who


async def test_a_scope_that_ends_in_time_leaves_no_timer_behind() -> None:
    async def quick(task: Task, members: Members, ctx: Context) -> Outcome:
        async with ctx.scope("part", Limits(seconds=0.1)) as part:
            reply = await part.ask(members[0], Turn(task.text), key="k")
        await ctx.clock.sleep(0.15)
        return outcome("failed" if isinstance(reply, Failure) else reply.text)

    team = Team("t", members=[FakeMembers().member("a", "in time")], strategy=FunctionStrategy(quick))
    async with Engine("memory") as engine:
        result = await engine.run(team, "go", run_id="r")
        kinds = [event.kind for event in await engine.journal.read("r")]
    assert result.output == "in time"
    assert "run.expired" not in kinds


@pytest.mark.parametrize("where", ["agent", "team", "scope"])
async def test_a_resumed_run_has_only_the_time_that_is_left(where: str) -> None:
    now = 1000.0
    limits, reached = Limits(seconds=100), anyio.Event()

    async def quick(attempt: Attempt) -> Returned:
        nonlocal now
        now = 1099.9
        return Returned("done")

    async def slow(attempt: Attempt) -> Returned:
        reached.set()
        await anyio.sleep(60)
        return Returned("never")

    async def both(turn: Turn, ctx: Context) -> str:
        async with ctx.scope("part", limits if where == "scope" else None) as part:
            await part.effect("quick", Effect("function", "quick", "", quick))
            await part.effect("slow", Effect("function", "slow", "", slow))
        return "in time"

    agent = FunctionAgent("a", both, limits=limits if where == "agent" else None)
    team = Team("t", members=[agent], limits=limits if where == "team" else None)
    async with Engine("memory", wall=lambda: now, monotonic=lambda: now) as engine:
        handle = await engine.start(team, "go", run_id="r")
        await reached.wait()
        handle.interrupt()
        await handle.result()
        with anyio.fail_after(10):
            result = await engine.resume("r", team=team)
    assert result.status == ("timeout" if where == "team" else "failed")


async def test_time_without_a_driver_does_not_count() -> None:
    now = 1000.0

    async def ask(task: Task, members: Members, ctx: Context) -> Outcome:
        await ctx.ask_person(Question(text="?"), key="q")
        reply = await ctx.ask(members[0], Turn(task.text), key="k")
        return outcome("late" if isinstance(reply, Failure) else reply.text)

    team = Team(
        "t", members=[FakeMembers().member("a", "in time")], strategy=FunctionStrategy(ask), limits=Limits(seconds=5)
    )
    async with Engine("memory", wall=lambda: now) as engine:
        assert (await engine.run(team, "go", run_id="r")).status == "paused"
        now = 90_000.0
        await engine.runs.answer("r", "t/q", "yes")
        result = await engine.resume("r", team=team)
    assert result.output == "in time"
    assert result.seconds < 5


@pytest.mark.parametrize("where", ["team", "nested", "scope"])
async def test_a_fork_with_another_task_leaves_a_deadline_that_ran_out_behind(where: str) -> None:
    async def answer(turn: Turn) -> str:
        return await hang(turn) if turn.task == "go" else f"heard {turn.task}"

    def made(seconds: float) -> Team:
        limits = {where: Limits(seconds=seconds)}

        async def in_a_scope(task: Task, members: Members, ctx: Context) -> Outcome:
            async with ctx.scope("part", limits.get("scope")) as part:
                reply = await part.ask(members[0], Turn(task.text), key="k")
            return outcome(reply.text if isinstance(reply, Reply) else "late")

        inner = Team("inner", members=[FunctionAgent("a", answer)], limits=limits.get("nested"))
        return Team("t", members=[inner], strategy=FunctionStrategy(in_a_scope), limits=limits.get("team"))

    async with Engine("memory") as engine:
        await engine.run(made(0.05), "go", run_id="r")
        events = await engine.journal.read("r")
        expired = next(event.number for event in events if event.kind == "run.expired")
        for at in range(expired, len(events) + 1):
            with anyio.fail_after(10):
                result = await engine.fork("r", at=at, task="another", team=made(60))
            assert (result.status, result.output) == ("completed", "heard another")
