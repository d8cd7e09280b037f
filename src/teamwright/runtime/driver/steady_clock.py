"""The clock of one driver: wall time that does not jump while the driver runs.

It reads the wall clock once and adds monotonic time, so a wall clock that is set back or forward changes no recorded
time, no limit and no wait. It never starts before the run's last event, so recorded times never go backwards.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable


def steady_clock(
    wall: Callable[[], float], monotonic: Callable[[], float] | None = None, not_before: float = 0.0
) -> Callable[[], float]:
    """Return a clock in seconds since the epoch; `monotonic` defaults to the running event loop's time."""
    elapsed = monotonic or _loop_time()
    origin = elapsed()
    start = max(wall(), not_before)
    offset = start - origin
    if offset + origin < start:  # by the rounding of floats
        offset += math.ulp(max(start, origin))

    def now() -> float:
        return offset + elapsed()

    return now


def _loop_time() -> Callable[[], float]:
    """Return the running event loop's clock; for a plain loop the function that it calls itself, which is cheaper."""
    loop = asyncio.get_running_loop()
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time


def remaining_wait(due: float, now: float, whole: float) -> float:
    """Return the seconds left of a recorded wait: never negative, never more than the whole wait."""
    return min(whole, max(0.0, due - now))
