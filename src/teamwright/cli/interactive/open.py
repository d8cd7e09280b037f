"""Opens the journal, or an engine over it, for a command."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from teamwright.cli.terminal.output import flush_all, redirect_prints
from teamwright.journal.location import BUSY_TIMEOUT, database_url, resolve_journal

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.values.results import RunSummary

T = TypeVar("T")


def with_journal(work: Callable[[Journal], Awaitable[T]], *, busy_timeout: float = BUSY_TIMEOUT) -> T:
    """Call `work` with the user's journal, which opens much faster than an engine, and return its result."""
    import anyio

    async def opened() -> T:
        journal = resolve_journal(busy_timeout=busy_timeout)
        await journal.open()
        try:
            return await work(journal)
        finally:
            await journal.close()

    return anyio.run(opened)


def new_engine() -> Engine:
    """An engine over the user's journal, which is not open; in Postgres, it keeps limits together with the others."""
    from teamwright.runtime.engine import Engine
    from teamwright.wings import hooks

    if (url := database_url()) is None:
        return Engine()
    return Engine(url, **{name: part for parts in hooks("shared_engine") for name, part in parts(url).items()})


def with_engine(work: Callable[[Engine], Awaitable[int]]) -> int:
    """Call `work` with an engine over the user's journal, and return its exit code."""

    async def opened() -> int:
        async with new_engine() as engine:
            return await work(engine)

    with redirect_prints():
        return run_on_loop(opened)


def run_on_loop(work: Callable[[], Awaitable[int]]) -> int:
    """Run a command on an event loop, and return its exit code.

    A loop that ends waits for every task that members have started. If a member was abandoned, the process exits
    without that wait.
    """
    import anyio

    from teamwright.runtime.driver.cancellation import has_abandoned_tasks

    async def whole() -> int:
        code = await work()
        if has_abandoned_tasks():
            flush_all()
            os._exit(code)
        return code

    return anyio.run(whole)


def with_run(run: str, work: Callable[[Engine, RunSummary], Awaitable[int]]) -> int:
    """Call `work` with an engine and the run that the user names, and return its exit code."""

    async def found(engine: Engine) -> int:
        from teamwright.cli.interactive.find_run import find_run
        from teamwright.runtime.deleted_run import deleted_is_not_found

        summary = await find_run(engine.journal, run)
        async with deleted_is_not_found(engine.journal, summary.id):
            return await work(engine, summary)

    return with_engine(found)
