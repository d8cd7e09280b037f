"""Runs teams from code that is not async. Inside a running event loop, as in a notebook, it works as well."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

import anyio

from teamwright.agents.constructor_arguments import checked_call
from teamwright.runtime.engine import Engine
from teamwright.runtime.run_request import RUN_OPTIONS, RunOptions

if TYPE_CHECKING:
    from teamwright.agents.agent import Agent
    from teamwright.journal.protocol import Journal
    from teamwright.values.turns.results import RunResult

T = TypeVar("T")


@checked_call("run", RUN_OPTIONS, acts=True)
def run_sync(
    team: Agent,
    task: str,
    *,
    journal: Journal | Path | str | None = None,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run a team from code that is not async. `options` are those of `Engine.run`.

    Where an event loop is running, as in a notebook, the run has a loop of its own in a thread, and the calling loop
    waits for it; in async code, write  `await engine.run(…)`  instead.
    """

    async def main() -> RunResult:
        async with Engine(journal) as engine:
            return await engine.run(team, task, **options)

    return _run_to_end(main)


def resume_sync(
    run_id: str,
    *,
    team: Agent | None = None,
    code: Path | str = "",
    journal: Journal | Path | str | None = None,
) -> RunResult:
    """Resume a run from code that is not async, as `run_sync`; `team` and `code` are those of `Engine.resume`."""

    async def main() -> RunResult:
        async with Engine(journal) as engine:
            return await engine.resume(run_id, team=team, code=code)

    return _run_to_end(main)


def _run_to_end(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return anyio.run(main)
    return _run_in_thread(main)


def _run_in_thread(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run on an event loop in another thread; Ctrl-C in the calling thread cancels the work there and waits for it."""
    from teamwright.agents.functions.threads import ASYNC_LIBRARY

    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()
    outcome: Future[T] = Future()

    async def whole() -> T:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        return await main()

    def work() -> None:
        try:
            outcome.set_result(asyncio.run(whole()))
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread
            outcome.set_exception(error)

    context = copy_context()
    if ASYNC_LIBRARY is not None:
        context.run(ASYNC_LIBRARY.set, None)
    thread = threading.Thread(target=context.run, args=(work,), name="teamwright run_sync")
    thread.start()
    try:
        return outcome.result()
    except KeyboardInterrupt:
        loop, task = started.result()
        with suppress(RuntimeError):  # the loop has just ended
            loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()
