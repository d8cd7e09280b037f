"""The background tasks of an engine or a server.

A task group must be left by the task that entered it. Here a supervisor does both, so that one task may open an engine
and another close it: a fixture of a test framework, the cells of a notebook.
"""

from __future__ import annotations

import asyncio

import anyio
from anyio.abc import TaskGroup

from teamwright.errors import UsageError


class BackgroundTasks:
    """A task group that any task of one event loop may open, use and close."""

    def __init__(self) -> None:
        self._supervisor: asyncio.Task[None] | None = None
        self._group: TaskGroup | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closing = anyio.Event()

    @property
    def is_open(self) -> bool:
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
