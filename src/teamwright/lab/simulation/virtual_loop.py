"""An event loop whose clock jumps to the next timer, so that hours pass in no time and the same way every time.

Timers, sleeps and deadlines work as ever. What comes from a thread or from outside has no place in virtual time:
whoever waits for that is told so, and never left hanging.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from teamwright.errors import VirtualTimeStuck

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

T = TypeVar("T")
RESOLUTION = 1e-6
"""Seconds that count as the same instant: above the rounding of a clock that has run for centuries."""


class JumpingSelector(selectors.BaseSelector):
    """Looks at files without waiting; where a real one would wait for a time, its clock has moved on by that time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answered_from: str | None = None
        self._files = selectors.DefaultSelector()

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready at this instant; if nothing is, the clock jumps."""
        thread, self.answered_from = self.answered_from, None
        if thread is not None:
            raise VirtualTimeStuck(
                f"Something waited for the thread {thread!r}, which runs in real time and has no place in virtual time."
                " Make its function async, or simulate its agent."
            )
        ready = self._files.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise VirtualTimeStuck(
                "Everything waits, and no timer will ever ring: something waits for a thread, a file or the network,"
                " which virtual time can't bring. Let members sleep instead, and keep the journal in memory."
            )
        self.now += max(0.0, timeout)
        return []

    @override
    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        """Look at this file from now on."""
        return self._files.register(fileobj, events, data)

    @override
    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """Look at it no more."""
        return self._files.unregister(fileobj)

    @override
    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        """Look at it for something else."""
        return self._files.modify(fileobj, events, data)

    @override
    def close(self) -> None:
        """Let go of every file."""
        self._files.close()

    @override
    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        """The files that are looked at."""
        return self._files.get_map()


class VirtualLoop(asyncio.SelectorEventLoop):
    """Waits for nothing: when all tasks wait for time to pass, it has passed. Its time begins at zero."""

    def __init__(self) -> None:
        self._clock = JumpingSelector()
        super().__init__(self._clock)
        self._clock_resolution = RESOLUTION  # where asyncio looks for which timers are due now
        self._own_thread = threading.get_ident()

    @override
    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._clock.now

    @override
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        """Only for the loop's own thread: when another one is done says nothing about virtual time."""
        if threading.get_ident() != self._own_thread:
            self._clock.answered_from = threading.current_thread().name
        return super().call_soon_threadsafe(callback, *args, context=context)


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run to the end on a clock of its own that begins at zero, and return what came of it.

    Where a loop runs already, as in a notebook, it waits while a thread of its own does the work.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_here(main)
    with ThreadPoolExecutor(1) as aside:
        return aside.submit(_run_here, main).result()


def _run_here(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def virtual_now() -> float:
    """What time it is in the running loop: the wall clock of an engine that runs there."""
    return asyncio.get_running_loop().time()
