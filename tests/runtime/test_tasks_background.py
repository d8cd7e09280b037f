"""An engine is opened by one task and closed by another, as in fixtures of tests and cells of a notebook."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from teamwright import Engine, FunctionAgent, Team, Turn
from teamwright.errors import UsageError
from teamwright.runtime.tasks import BackgroundTasks
from tests.kit.members import FakeMembers

T = TypeVar("T")


def in_cell(work: Callable[[], Awaitable[T]]) -> asyncio.Task[T]:
    """Run code as a notebook runs a cell: in a task of its own."""

    async def cell() -> T:
        return await work()

    return asyncio.create_task(cell())


async def engine_fixture(path: Path) -> AsyncIterator[Engine]:
    """A fixture as users write it; a test framework runs its two halves in different tasks."""
    async with Engine(path) as engine:
        yield engine


async def test_a_fixture_may_be_left_by_another_task_than_it_was_entered_by(tmp_path: Path) -> None:
    fixture = engine_fixture(tmp_path / "j.db")
    engine = await asyncio.create_task(anext(fixture))  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
    result = await in_cell(lambda: engine.run(FakeMembers().chain(2), "go"))
    assert result.status == "completed"

    async def leave() -> None:
        with pytest.raises(StopAsyncIteration):
            await anext(fixture)

    await asyncio.create_task(leave())
    with pytest.raises(UsageError, match="not open"):
        await engine.run(FakeMembers().chain(1), "go")


async def test_each_cell_of_a_notebook_uses_the_same_engine() -> None:
    engine = Engine("memory")
    await in_cell(engine.open)
    first = await in_cell(lambda: engine.run(FakeMembers().chain(1), "go", run_id="r"))
    assert await in_cell(lambda: engine.runs.result("r")) == first
    await in_cell(engine.close)


async def test_a_run_started_by_one_task_goes_on_after_that_task_has_ended() -> None:
    reached, go_on = anyio.Event(), anyio.Event()

    async def answer(turn: object) -> str:
        reached.set()
        await go_on.wait()
        return "done"

    engine = await Engine("memory").open()
    handle = await asyncio.create_task(engine.start(FunctionAgent("a", answer), "go"))
    await reached.wait()
    go_on.set()
    assert (await handle.result()).output == "done"
    await engine.close()


async def test_closing_interrupts_runs_which_can_be_resumed_after_opening_again() -> None:
    members, reached = FakeMembers(), anyio.Event()
    blocked = True

    async def answer(turn: object) -> str:
        reached.set()
        if blocked:
            await anyio.sleep_forever()
        return "second"

    team = Team("t", members=[*members.chain(1).members, FunctionAgent("b", answer)])
    engine = await Engine("memory").open()
    await engine.start(team, "go", run_id="r")
    await reached.wait()
    await in_cell(engine.close)
    blocked = False
    await in_cell(engine.open)
    assert (await engine.resume("r", team=team)).output == "second"
    assert len(members.calls) == 1
    await engine.close()


async def test_closing_twice_does_nothing_and_opening_twice_is_refused() -> None:
    engine = Engine("memory")
    await engine.close()
    async with engine:
        with pytest.raises(UsageError, match="open already"):
            await engine.open()
        await engine.close()
    await engine.close()


async def test_an_engine_that_can_not_open_its_journal_leaves_nothing_open(tmp_path: Path) -> None:
    (tmp_path / "j.db").write_text("this is not a database, and was never meant to be one" * 99)
    engine = Engine(tmp_path / "j.db")
    with pytest.raises(Exception, match="database"):
        await engine.open()
    with pytest.raises(UsageError, match="not open"):
        await engine.start(FakeMembers().chain(1), "go")


async def test_an_engine_of_another_event_loop_is_refused() -> None:
    async with Engine("memory") as engine:

        async def elsewhere() -> None:
            with pytest.raises(UsageError, match="another event loop"):
                await engine.run(FakeMembers().chain(1), "go")
            with pytest.raises(UsageError, match="another event loop"):
                await engine.close()

        await anyio.to_thread.run_sync(lambda: asyncio.run(elsewhere()))


def test_a_loop_that_ends_with_an_open_engine_ends_its_tasks() -> None:
    async def main() -> None:
        engine = await Engine("memory").open()
        await engine.run(FakeMembers().chain(1), "go")

    asyncio.run(main())


async def test_a_cancelled_block_closes_the_engine_and_passes_the_cancellation_on() -> None:
    engine, at_work = Engine("memory"), asyncio.Event()

    async def work(turn: Turn) -> str:
        at_work.set()
        await anyio.sleep_forever()
        return "never"

    async def main() -> None:
        async with engine:
            await engine.start(FunctionAgent("a", work), "go", run_id="r")
            await anyio.sleep_forever()

    task = asyncio.create_task(main())
    await at_work.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(UsageError, match="not open"):
        await engine.start(FakeMembers().chain(1), "go")


async def test_closing_waits_for_tasks_even_when_it_is_cancelled() -> None:
    tasks, ended = BackgroundTasks(), False

    async def slow_to_end() -> None:
        nonlocal ended
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
            ended = True

    await tasks.open()
    tasks.group().start_soon(slow_to_end)
    await asyncio.sleep(0)
    closing = asyncio.create_task(tasks.close())
    await asyncio.sleep(0.01)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert ended


async def test_an_error_of_a_task_is_raised_by_close() -> None:
    tasks = BackgroundTasks()

    async def broken() -> None:
        raise OSError("gone")

    await tasks.open()
    tasks.group().start_soon(broken)
    await asyncio.sleep(0.01)
    with pytest.raises(ExceptionGroup) as raised:
        await tasks.close()
    assert raised.group_contains(OSError, match="gone")
