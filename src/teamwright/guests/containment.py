"""Tasks and threads that frameworks start in an event loop: what they do there must not end or hold up the process.

An event loop passes `SystemExit` on to its caller, and all other runs would end with it. When it is closed, it
waits for its threads, and so does Python at its exit; a thread of a guest that was cancelled may go on for hours.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from threading import Lock, Thread
from typing import Any, TypeVar

from typing_extensions import override

from teamwright.errors import AgentError
from teamwright.values.text.display import error_text

T = TypeVar("T")
MOST_THREADS = 64
"""How many calls of guests are in threads at once; others wait."""


class GuestTasks:
    """A task factory of an event loop with guests: what would end the process in a task of theirs fails the task."""

    def __init__(self, outer: Any, is_guests: Callable[[], bool]) -> None:
        self._outer, self._is_guests = outer, is_guests
        self.turns = 0

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop, is_guests: Callable[[], bool]) -> GuestTasks:
        """Return the factory of a loop; make it, around that of the loop, for its first guest."""
        found = loop.get_task_factory()
        if not isinstance(found, cls):
            found = cls(found, is_guests)
            loop.set_task_factory(found)
            if getattr(loop, "_default_executor", None) is None:
                loop.set_default_executor(GuestThreads())
        return found

    def turn_ended(self, loop: asyncio.AbstractEventLoop) -> None:
        """Leave the loop after its last guest."""
        self.turns -= 1
        if not self.turns and loop.get_task_factory() is self:
            loop.set_task_factory(self._outer)

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> Any:
        work = _without_exit(coro) if self._is_guests() else coro
        return asyncio.Task(work, loop=loop, **options) if self._outer is None else self._outer(loop, work, **options)


async def _without_exit(coro: Awaitable[T]) -> T:
    try:
        return await coro
    except SystemExit as error:
        raise AgentError(error_text(error)) from error


class GuestThreads(ThreadPoolExecutor):
    """The threads of an event loop with guests, for which neither the loop nor Python waits at its end."""

    def __init__(self) -> None:
        super().__init__(1)
        self._jobs, self._guard, self._threads_at_work = deque[Callable[[], None]](), Lock(), 0

    @override
    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future = Future[T]()
        with self._guard:
            self._jobs.append(partial(_carry_out, future, partial(fn, *args, **kwargs)))
            is_needed = self._threads_at_work < MOST_THREADS
            self._threads_at_work += is_needed
        if is_needed:
            Thread(target=self._work, name="guest", daemon=True).start()
        return future

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._jobs:
                    self._threads_at_work -= 1
                    return
                job = self._jobs.popleft()
            job()

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the threads to themselves."""


def _carry_out(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - the caller gets what it raised
        future.set_exception(error)
