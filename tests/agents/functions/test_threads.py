"""An async function that blocks the event loop is named, and no other; cancelling it works as without the timing."""

from __future__ import annotations

import asyncio
import threading
import time

import anyio
import pytest

from teamwright import Context, Engine, FunctionAgent, ScriptedAgent, Team, Turn
from teamwright.agents.functions import threads as blocked_loop
from teamwright.agents.functions.threads import await_steps, finish, run_in_thread
from teamwright.agents.scripted import Rule, ToolRule
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.values.events.run import RunLogged
from tests.kit.records import cut_and_resume


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked_loop, "MOST_SECONDS", 0.5)


async def waits(prompt: str) -> str:
    await asyncio.sleep(0.7)
    return "waited"


async def blocks(prompt: str) -> str:
    await asyncio.sleep(0)
    time.sleep(0.6)  # noqa: ASYNC251 - what the test is about
    await asyncio.sleep(0)
    return "blocked"


async def blocks_with_context(turn: Turn, ctx: Context) -> str:
    time.sleep(0.6)  # noqa: ASYNC251 - what the test is about
    return "blocked"


def blocks_in_thread(prompt: str) -> str:
    time.sleep(0.6)
    return "blocked a thread"


async def logged(journal: MemoryJournal, run_id: str = "r") -> list[str]:
    return [event.fact.text for event in await journal.read(run_id) if isinstance(event.fact, RunLogged)]


@pytest.mark.parametrize("function", [blocks, blocks_with_context])
async def test_an_agent_that_blocks_is_named_with_what_to_do(function: object) -> None:
    journal = MemoryJournal()
    team = Team("t", members=[FunctionAgent("bad", function)])  # pyright: ignore[reportArgumentType]
    async with Engine(journal) as engine:
        beside = await engine.start(FunctionAgent("good", waits), "go", run_id="beside")
        result = await engine.run(team, "go", run_id="r")
        await beside.result()
    assert (result.status, result.warnings) == ("completed", ())
    (text,) = await logged(journal)
    assert text.startswith("the agent 'bad' blocked the event loop for ")
    assert "without async" in text
    assert await logged(journal, "beside") == []
    again, kinds = await cut_and_resume(team, len(await journal.read("r")) - 1, journal)
    assert (again.status, kinds.count("run.logged")) == ("completed", 1)


@pytest.mark.parametrize("function", [waits, blocks_in_thread, lambda prompt: "at once"])
async def test_an_agent_that_waits_or_works_in_a_thread_is_not_named(function: object) -> None:
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        await engine.run(FunctionAgent("good", function), "go", run_id="r")  # pyright: ignore[reportArgumentType]
    assert await logged(journal) == []


async def test_a_tool_that_blocks_is_named() -> None:
    async def look() -> str:
        """Look."""
        time.sleep(0.6)  # noqa: ASYNC251 - what the test is about
        return "seen"

    journal = MemoryJournal()
    rules = [Rule(match="seen", reply="Done."), Rule(tool=ToolRule(name="look", args={}))]
    async with Engine(journal) as engine:
        await engine.run(ScriptedAgent("ada", rules, tools=[look]), "go", run_id="r")
    (text,) = await logged(journal)
    assert text.startswith("the tool 'look' blocked the event loop for ")


async def test_a_blocking_agent_that_fails_is_named_too() -> None:
    async def fails(prompt: str) -> str:
        time.sleep(0.6)  # noqa: ASYNC251 - what the test is about
        raise ValueError("no")

    journal = MemoryJournal()
    async with Engine(journal) as engine:
        assert (await engine.run(FunctionAgent("bad", fails), "go", run_id="r")).status == "failed"
    assert len(await logged(journal)) == 1


async def test_a_function_gets_its_cancellation_and_may_clean_up() -> None:
    held: list[float] = []
    seen: list[str] = []

    async def work() -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0.6)
            seen.append("cleaned up")
            raise
        return "never"

    async def watched() -> str:
        return await await_steps(work(), held.append)

    task = asyncio.create_task(watched())
    await asyncio.sleep(0.6)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled", "cleaned up"]
    assert held == []


async def test_work_is_done_to_its_end_though_who_waits_is_cancelled_again_and_again() -> None:
    done: list[str] = []

    async def work() -> str:
        for step in range(5):
            await asyncio.sleep(0.02)
            done.append(str(step))
        return "finished"

    assert await finish(work()) == "finished"
    for scope in (anyio.CancelScope(), None):  # cancelled by anyio, and by asyncio alone

        async def wait(scope: anyio.CancelScope | None = scope) -> None:
            with scope or anyio.CancelScope():
                await finish(work())

        done.clear()
        task = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        while not task.done():
            if scope is None:
                task.cancel()
            else:
                scope.cancel()
            await asyncio.sleep(0.005)
        assert done == ["0", "1", "2", "3", "4"]
        assert task.cancelled() == (scope is None)


async def test_work_that_fails_once_who_waits_was_cancelled_leaves_the_cancellation() -> None:
    async def work() -> None:
        await asyncio.sleep(0.02)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await finish(work())
    task = asyncio.create_task(finish(work()))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_awaitable_that_is_no_coroutine_is_awaited_and_an_abandoned_one_is_closed() -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result(5)
    assert await await_steps(future, print) == 5
    closed: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            closed.append("closed")

    async def watched() -> None:
        await await_steps(work(), print)

    abandoned = watched()
    abandoned.send(None)
    abandoned.close()
    assert closed == ["closed"]


async def test_a_thread_is_used_again_under_the_name_of_its_work_and_ends_when_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(blocked_loop, "IDLE_SECONDS", 0.05)
    names = list[str]()
    used = set[threading.Thread]()

    def work() -> None:
        names.append(threading.current_thread().name)
        used.add(threading.current_thread())

    for number in range(10):
        await run_in_thread(work, f"work {number}")
        await asyncio.sleep(0.005)  # the thread says that it is free after its work
    assert names == [f"work {number}" for number in range(10)]
    assert len(used) < 10
    for _ in range(600):
        if not any(thread.is_alive() for thread in used):
            break
        await asyncio.sleep(0.05)
    assert not any(thread.is_alive() for thread in used)
    await run_in_thread(work, "later")
    assert names[-1] == "later"


async def test_a_thread_that_was_abandoned_takes_no_work_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked_loop, "THREAD_GRACE", 0.05)
    released, abandoned = threading.Event(), list[float]()

    async def note(grace: float) -> None:
        abandoned.append(grace)

    stuck = asyncio.create_task(run_in_thread(released.wait, "stuck", note))
    await asyncio.sleep(0.01)
    stuck.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stuck
    assert abandoned == [0.05]
    assert await run_in_thread(lambda: "done", "next") == "done"
    released.set()
