"""The runs that this engine drives, the delivery of inbox items to them, and the background tasks of an engine.

A task group must be left by the task that entered it. Here a supervisor does both, so that one task may open an engine
and another close it: a fixture of a test framework, the cells of a notebook.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from teamwright.errors import JournalCorrupt, JournalError, JournalTooNew, UsageError

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.run_control import RunControl


class BackgroundTasks:
    """A task group that any task of one event loop may open, use and close."""

    def __init__(self) -> None:
        self._supervisor: asyncio.Task[None] | None = None
        self._group: TaskGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = anyio.Event()

    @property
    def is_open(self) -> bool:
        """Whether tasks can be started."""
        return self._group is not None

    async def open(self) -> None:
        """Start the supervisor."""
        self._loop, self._closing = asyncio.get_running_loop(), anyio.Event()
        entered: asyncio.Future[TaskGroup] = self._loop.create_future()
        self._supervisor = asyncio.create_task(self._supervise(entered), name="teamwright engine")
        try:
            self._group = await entered
        except BaseException:
            await self.close()
            raise

    async def _supervise(self, entered: asyncio.Future[TaskGroup]) -> None:
        async with anyio.create_task_group() as group:
            entered.set_result(group)
            await self._closing.wait()
            group.cancel_scope.cancel()

    def group(self) -> TaskGroup:
        """Return the open group; raises `UsageError` if there is none in this event loop."""
        if self._group is None:
            raise UsageError("The engine is not open; use  async with Engine() as engine:  or  await engine.open()")
        if self._loop is not asyncio.get_running_loop():
            raise UsageError(
                "The engine was opened in another event loop; open one in each loop. A test framework may run a fixture"
                " and its test in different loops; give both the same scope."
            )
        return self._group

    async def close(self) -> None:
        """Cancel all tasks and wait until they have ended, even if the caller is cancelled meanwhile."""
        supervisor, self._supervisor, self._group = self._supervisor, None, None
        if supervisor is None:
            return
        self._closing.set()
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while not supervisor.done():
                try:
                    await asyncio.wait([supervisor])
                except asyncio.CancelledError as error:
                    cancelled = error  # raised below, once nothing is left behind
        if cancelled is not None:
            raise cancelled
        await supervisor  # raises what a task has raised


POLL_INTERVAL = 0.08
"""Seconds between two polls of a journal that can't notify of changes."""
NOTIFIED_INTERVAL = 1.0
"""Seconds between two polls of one that can, in case a notification or a driver was lost."""


class LiveRuns:
    """Runs by id, from their launch until their driver has released them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._runs: dict[str, RunControl] = {}
        self._launched = anyio.Event()
        self._watchers: list[Callable[[], None]] = []

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    def __iter__(self) -> Iterator[RunControl]:
        return iter(list(self._runs.values()))

    def get(self, run_id: str) -> RunControl | None:
        """Return the run of this id, or `None` if it is not driven here."""
        return self._runs.get(run_id)

    def add(self, run: RunControl) -> None:
        """Add a run that is about to be driven."""
        self._runs[run.run_id] = run
        self._launched.set()

    def remove(self, run_id: str) -> None:
        """Remove a run that is no longer driven here."""
        self._runs.pop(run_id, None)
        for watcher in tuple(self._watchers):
            watcher()

    @contextmanager
    def watching(self, watcher: Callable[[], None]) -> Generator[None]:
        """For the duration of the block, call this whenever a run is no longer driven here."""
        self._watchers.append(watcher)
        try:
            yield
        finally:
            self._watchers.remove(watcher)

    async def watch_inboxes(self) -> None:
        """Deliver inbox items as they arrive, until cancelled. The journal is not polled while no run is live."""
        while True:
            if not self._runs:
                self._launched = anyio.Event()
                await self._launched.wait()
            with suppress(JournalError):  # the run that writes to the journal reports it; here we poll again
                await self._journal.changed(POLL_INTERVAL)
                await self.deliver_inboxes()

    async def deliver_inboxes(self) -> None:
        """Pass each run the inbox items that it has not received yet."""
        for run in self:
            try:
                items = await self._journal.inbox(run.run_id, run.last_inbox_id)
            except (JournalCorrupt, JournalTooNew) as error:  # a run must not wait for ever for an unreadable inbox
                run.journal_failed(error)
                continue
            for item in items:
                run.receive(item, await run.refusal_of(item))
