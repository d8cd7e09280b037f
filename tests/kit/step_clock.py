"""Virtual time in whole units, for tests that measure how long steps take."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from typing import Any

from teamwright.values.turns.turn import Turn
from tests.kit.effects import yield_to_loop

QUIET = 80
"""Iterations of the event loop after which everything that one answer triggers has happened."""


class StepClock:
    """A clock that jumps to the next sleeper when nothing else can happen."""

    def __init__(self) -> None:
        self.now = 0
        self._numbers = count()
        self._sleepers: list[tuple[int, int, asyncio.Event]] = []

    async def sleep(self, duration: int) -> None:
        """Sleep for a virtual duration."""
        rings = asyncio.Event()
        heapq.heappush(self._sleepers, (self.now + duration, next(self._numbers), rings))
        await rings.wait()

    @contextmanager
    def running(self) -> Generator[None]:
        """Advance the clock while the block runs."""
        task = asyncio.ensure_future(self._advance())
        try:
            yield
        finally:
            task.cancel()

    async def _advance(self) -> None:
        while True:
            await yield_to_loop(QUIET)
            if self._sleepers:
                self.now, _, rings = heapq.heappop(self._sleepers)
                rings.set()


def answer_after(clock: StepClock, duration: int) -> Callable[[Turn], Any]:
    """An answer that takes this much virtual time."""

    async def answer(_: Turn) -> None:
        await clock.sleep(duration)

    return answer
