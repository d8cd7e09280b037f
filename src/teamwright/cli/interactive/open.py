"""Opens what commands work on: the journal alone, or an engine over it."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from teamwright.cli.terminal.output import flush_all, prints_aside
from teamwright.journal.location import BUSY_TIMEOUT, resolve_journal

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.values.results import RunSummary

T = TypeVar("T")


def with_journal(work: Callable[[Journal], Awaitable[T]], *, busy_timeout: float = BUSY_TIMEOUT) -> T:
    """Work on the user's journal alone, which opens much faster than an engine; returns what the work returns."""
    import anyio

    async def opened() -> T:
        journal = resolve_journal(busy_timeout=busy_timeout)
        await journal.open()
        try:
            return await work(journal)
        finally:
            await journal.close()

    return anyio.run(opened)


def with_engine(work: Callable[[Engine], Awaitable[int]]) -> int:
    """Work with an engine over the user's journal."""
    from teamwright.runtime.engine import Engine

    async def opened() -> int:
        async with Engine() as engine:
            return await work(engine)

    with prints_aside():
        return run_to_the_end(opened)


def run_to_the_end(work: Callable[[], Awaitable[int]]) -> int:
    """Run a command on an event loop.

    The end of the loop waits for every task that a member has made. Where a member was abandoned, the process ends
    without that wait.
    """
    import anyio

    from teamwright.runtime.cancellation import has_abandoned_tasks

    async def whole() -> int:
        code = await work()
        if has_abandoned_tasks():
            flush_all()
            os._exit(code)
        return code

    return anyio.run(whole)


def with_run(run: str, work: Callable[[Engine, RunSummary], Awaitable[int]]) -> int:
    """Work on the run that the user means."""

    async def found(engine: Engine) -> int:
        from teamwright.cli.interactive.find_run import find_run
        from teamwright.runtime.deleted_run import deleted_is_not_found

        meant = await find_run(engine.journal, run)
        async with deleted_is_not_found(engine.journal, meant.id):
            return await work(engine, meant)

    return with_engine(found)
