"""An event loop whose clock jumps to the next timer, so that hours pass at once and deterministically.

Timers, sleeps and deadlines work as usual. A result from a thread or from outside has no place in virtual time: waiting
for one raises an error instead of hanging. The length of a simulated run is bounded: a team may be allowed a billion
turns.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import override

from teamwright.errors import UsageError, VirtualTimeStuck

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


T = TypeVar("T")
RESOLUTION = 1e-6
"""Seconds that count as the same instant: more than the rounding error of a clock that has run for centuries."""


class JumpingSelector(selectors.BaseSelector):
    """Polls files without blocking; where a real selector would wait, it advances its clock by the timeout."""

    def __init__(self) -> None:
        self.now = 0.0
        self.answered_from: str | None = None
        self._has_failed = False
        self._files = selectors.DefaultSelector()

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """The files that are ready now; if there are none, the clock jumps by the timeout."""
        thread, self.answered_from = self.answered_from, None
        if thread is not None and not self._has_failed:  # a thread that answers later must not stop the loop's closing
            self._has_failed = True
            raise VirtualTimeStuck(
                f"Something waited for the thread {thread!r}, which runs in real time and can't run in virtual time."
                " Make its function async, or simulate its agent."
            )
        ready = self._files.select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise VirtualTimeStuck(
                "Every task waits and no timer is set: something waits for a thread, a file or the network, which never"
                " respond in virtual time. Let members sleep instead, and keep the journal in memory."
            )
        self.now += max(0.0, timeout)
        return []

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

    def __init__(self) -> None:
        self._clock = JumpingSelector()
        super().__init__(self._clock)
        self._clock_resolution = RESOLUTION  # asyncio treats timers within it as due now
        self._own_thread = threading.get_ident()

    @override
    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._clock.now

    @override
    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        """Only for the loop's own thread: a call from another one has no defined point in virtual time."""
        if threading.get_ident() != self._own_thread:
            self._clock.answered_from = threading.current_thread().name
        return super().call_soon_threadsafe(callback, *args, context=context)


def run_virtually(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine on a virtual loop whose clock starts at zero, and return its result.

    If a loop runs already, as in a notebook, the virtual loop runs in a thread and the caller waits for it.
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
    """The time of the running loop, for use as the wall clock of an engine on it."""
    return asyncio.get_running_loop().time()


MOST_TURNS = 50_000
MOST_CHARACTERS = 4_000_000_000
"""The total input of all members: every turn of a long conversation receives all of it again."""


@dataclass(slots=True)
class RunBound:
    """Counts the turns and the input characters of one run, and stops the run when either is too large."""

    stop: Callable[[], None] | None = None
    turns: int = 0
    characters: int = 0

    @property
    def is_passed(self) -> bool:
        """Whether the run is longer than a simulation may be."""
        return self.turns > MOST_TURNS or self.characters > MOST_CHARACTERS

    def count(self, characters: int) -> None:
        """Count one turn with so many characters of input."""
        self.turns += 1
        self.characters += characters
        if self.is_passed and self.stop is not None:
            self.stop()

    def check(self) -> None:
        if self.is_passed:
            raise UsageError(
                f"A simulated run was stopped after {self.turns} turns with {self.characters} characters of input; the"
                f" maximum is {MOST_TURNS} turns and {MOST_CHARACTERS} characters. Lower max_turns, or set a limit with"
                " --max-calls."
            )


_BOUND: ContextVar[RunBound | None] = ContextVar("teamwright_simulated_run", default=None)


@contextmanager
def bounded_run() -> Generator[RunBound]:
    """Count the turns of all simulated members within the block against one bound."""
    bound = RunBound()
    before = _BOUND.set(bound)
    try:
        yield bound
    finally:
        _BOUND.reset(before)


def count_turn(characters: int) -> None:
    """Count a turn of the enclosing simulated run, if there is one."""
    if (bound := _BOUND.get()) is not None:
        bound.count(characters)
