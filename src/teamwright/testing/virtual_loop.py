"""An event loop whose clock jumps to the next timer, so that hours pass at once and deterministically.

Timers, sleeps and deadlines work as usual. A result from a thread or from outside has no place in virtual time: waiting
for one raises an error instead of hanging. A *patient* loop stops its clock while a thread works instead.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread
from typing_extensions import override

from teamwright.errors import VirtualTimeStuck

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


T = TypeVar("T")
POLL_SECONDS = 0.05
"""How long a patient loop waits at once, in real time, for a thread that works."""
RESOLUTION = 1e-6
"""Seconds that count as the same instant: more than the rounding error of a clock that has run for centuries."""


class JumpingSelector(selectors.BaseSelector):
    """Polls files without blocking; where a real selector would wait, it advances its clock by the timeout."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answered_from: str | None = None
        self.is_awaited: Callable[[], bool] = lambda: False
        """Whether a thread works for the loop, and the clock is stopped."""
        self._has_failed = False
        self._files = selectors.DefaultSelector()

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The files that are ready now; if there are none, the clock jumps by the timeout."""
        thread, self.answered_from = self.answered_from, None
        if thread is not None and not self._has_failed:  # a thread that answers later must not stop the loop's closing
            raise self._stuck(
                f"Something waited for the thread {thread!r}, which runs in real time and can't run in virtual time."
                " Make its function async, or simulate its agent."
            )
        ready = self._files.select(0)
        if ready or timeout == 0:
            return ready
        if self.is_awaited():
            return self._files.select(POLL_SECONDS)
        if timeout is None:
            raise self._stuck(
                "Every task waits and no timer is set: something waits for a thread, a file or the network, which never"
                " respond in virtual time. Let members sleep instead, and keep the journal in memory."
            )
        self.now += max(0.0, timeout)
        return []

    def _stuck(self, message: str) -> VirtualTimeStuck:
        self._has_failed = True
        return VirtualTimeStuck(message)

    @override
    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.register(fileobj, events, data)

    @override
    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._files.unregister(fileobj)

    @override
    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._files.modify(fileobj, events, data)

    @override
    def close(self) -> None:
        self._files.close()

    @override
    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._files.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Never waits: when every task waits for a timer, its clock jumps to the next one. Its time starts at zero."""

    def __init__(self, *, patient: bool = False) -> None:
        self._clock, self._patient = JumpingSelector(), patient
        super().__init__(self._clock)
        self._clock_resolution = RESOLUTION  # asyncio treats timers within it as due now
        self._own_thread = threading.get_ident()

    def wait_for(self, limiter: anyio.CapacityLimiter) -> None:
        """Stop the clock while a thread works for which this limiter has room."""
        self._clock.is_awaited = lambda: limiter.borrowed_tokens > 0

    @override
    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._clock.now

    @override
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        """Only for the loop's own thread: a call from another one has no defined point in virtual time."""
        if threading.get_ident() != self._own_thread and not self._patient:
            self._clock.answered_from = threading.current_thread().name
        return super().call_soon_threadsafe(callback, *args, context=context)


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]], *, patient: bool = False) -> T:
    """Run a coroutine on a virtual loop whose clock starts at zero, and return its result.

    If a loop runs already, as in a notebook, the virtual loop runs in a thread and the caller waits for it.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_here(main, patient=patient)
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(partial(_run_here, main, patient=patient)).result()


def _run_here(main: Callable[[], Coroutine[Any, Any, T]], *, patient: bool) -> T:
    async def patiently(loop: VirtualLoop) -> T:
        loop.wait_for(anyio.to_thread.current_default_thread_limiter())
        return await main()

    with asyncio.Runner(loop_factory=partial(VirtualLoop, patient=patient)) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return runner.run(patiently(loop) if patient else main())


def virtual_now() -> float:
    """The time of the running loop, for use as the wall clock of an engine on it."""
    return asyncio.get_running_loop().time()
