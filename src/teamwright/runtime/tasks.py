"""Tasks that are certain to end: cancellation, and the background tasks of an engine or a server.

A task may swallow a cancellation, or a library in it may reset the count that `Task.cancelling` returns. So a task that
has not ended is cancelled again, with growing pauses, and abandoned after a grace time. Nothing here decides whether a
run is being stopped: the state of the run does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from teamwright.agents.functions.threads import finish
from teamwright.errors import UsageError

T = TypeVar("T")

CANCEL_GRACE = 5.0
"""Seconds that members have to end once they are cancelled."""

FIRST_PAUSE = 0.25
"""Seconds before a task is cancelled a second time; most clean up faster."""

_abandoned: set[asyncio.Task[Any]] = set()


class Cancellation:
    """Cancels a task until it ends; after `grace` seconds abandons it and calls `abandoned`."""

    __slots__ = ("_abandon", "_deadline", "_pause", "_requests", "_task", "_timer")

    def __init__(self, task: asyncio.Task[Any], grace: float, abandoned: Callable[[], None] | None = None) -> None:
        self._task, self._abandon = task, abandoned
        self._deadline = asyncio.get_running_loop().time() + grace
        self._pause, self._requests = FIRST_PAUSE, 0
        self._timer: asyncio.TimerHandle | None = None
        task.add_done_callback(self._ended)
        self._request()

    def withdraw(self) -> None:
        """Withdraw all cancel requests: what had to stop has ended, and the task continues."""
        self._task.remove_done_callback(self._ended)
        self._ended(self._task)
        for _ in range(self._requests):
            self._task.uncancel()

    def _request(self) -> None:
        loop = asyncio.get_running_loop()
        remaining = self._deadline - loop.time()
        if remaining <= 0:
            self._task.cancel()  # once more, so that it stops waiting for anything of the run
            abandon_task(self._task)
            if self._abandon is not None:
                self._abandon()
            return
        self._requests += 1
        self._task.cancel()
        self._timer = loop.call_later(min(self._pause, remaining), self._request)
        self._pause *= 2

    def _ended(self, _: asyncio.Task[Any]) -> None:
        if self._timer is not None:
            self._timer.cancel()


class ContainedTask(Generic[T]):
    """Work in its own task, which can be stopped even if it ignores cancellation.

    `abandoned` is called when the work has outlived its grace time.
    """

    __slots__ = ("_abandon", "_cancellation", "_grace", "_interrupted", "_task", "_waiter", "abandoned")

    def __init__(
        self,
        work: Callable[[], Awaitable[T]],
        *,
        name: str,
        grace: float,
        abandoned: Callable[[], None],
        interrupted: Callable[[], None] | None = None,
    ) -> None:
        self._grace, self._abandon = grace, abandoned
        self._interrupted = interrupted or self.stop
        self._cancellation: Cancellation | None = None
        self._waiter: asyncio.Future[None] | None = None
        self.abandoned = False
        self._task = asyncio.get_running_loop().create_task(self._do(work), name=name)
        self._task.add_done_callback(self._done)

    def stop(self) -> None:
        """Cancel the work, repeatedly, until it ends or is abandoned."""
        if self._cancellation is None and not self._task.done():
            self._cancellation = Cancellation(self._task, self._grace, self._on_abandoned)

    async def wait(self) -> None:
        """Wait until the work has ended or is abandoned. Cancelling the wait stops the work first."""
        interruption: asyncio.CancelledError | None = None
        loop = asyncio.get_running_loop()
        while not self._task.done() and not self.abandoned:
            self._waiter = loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError as error:
                if interruption is None:
                    self._interrupted()
                interruption = error
        if interruption is not None:
            raise interruption

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called before the work had ended."""
        return self._cancellation is not None

    @property
    def has_failed(self) -> bool:
        """Whether there is no result: the work raised, was cancelled or was abandoned."""
        return self.abandoned or self._task.cancelled() or self._task.exception() is not None

    def result(self) -> T:
        """Return what the work returned; raises what it raised."""
        return self._task.result()

    async def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, and wake who waits for it one iteration of the event loop before the task's callbacks would."""
        result = await work()
        self._wake()
        return result

    def _on_abandoned(self) -> None:
        self.abandoned = True
        self._abandon()
        self._wake()

    def _done(self, task: asyncio.Task[T]) -> None:
        _retrieve(task)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def abandon_task(task: asyncio.Task[Any]) -> None:
    """Stop waiting for a task; the end of the event loop does not wait for it either."""
    _abandoned.add(task)  # keeps it from being garbage-collected while it runs
    task.add_done_callback(_forget)
    task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue] - it is abandoned on purpose
    asyncio._unregister_task(task)  # pyright: ignore[reportAttributeAccessIssue] - documented for extensions


def has_abandoned_tasks() -> bool:
    """Whether any abandoned task has not ended yet."""
    return bool(_abandoned)


def _forget(task: asyncio.Task[Any]) -> None:
    _abandoned.discard(task)
    _retrieve(task)


def _retrieve(task: asyncio.Task[Any]) -> None:
    """Retrieve a task's exception, which asyncio would log otherwise."""
    if not task.cancelled():
        task.exception()


class BackgroundTasks:
    """A task group that any task of one event loop may open, use and close.

    A task group must be left by the task that entered it. Here a supervisor does both, so that one task may open an
    engine and another close it: a fixture of a test framework, the cells of a notebook.
    """

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
        await finish(supervisor)  # raises what a task has raised
