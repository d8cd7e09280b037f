"""Assertions on how work grows with its input: doubling the input may cost at most 2.5 times the work.

`assert_linear` measures CPU time and suits everything, C code such as regular expressions included. It compares a size
with eight times as much, three doublings: linear and quadratic work are so far apart that neither the machine's speed
nor its load confuses them. Where one pair of runs leaves doubt, it measures again before it fails.
`assert_linear_calls` counts function calls and is exact; it suits pure Python. `assert_linear_count` compares numbers
that the code under test counts itself. None of them hangs on code that is not linear: a run is cut off at a CPU limit.

    assert_linear(redactor.text, prepare=lambda size: "sk-" * size)
    assert_linear(lambda size: anyio.run(run_team, size), size=100)

Pass `size` where slow growth shows at large inputs only: the measurement starts there.
"""

from __future__ import annotations

import cProfile
import gc
import math
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from statistics import median_high
from types import FrameType
from typing import TypeVar

import pytest

Input = TypeVar("Input")

MOST = 2.5
"""The permitted ratio of work for twice the input."""
DOUBLINGS = 3
"""How often the input is doubled between the two that are measured: linear work grows 8 times, quadratic 64 times."""
HOPELESS = 2.0
"""A run is cut off at this many times the permitted work, but not before `PATIENCE` seconds."""
PATIENCE = 0.1
ENOUGH_SECONDS = 0.005
"""A measurement below this is noise: the input grows, or the work is repeated, until it takes as long."""
LARGEST = 1 << 22
"""The largest input while searching for a size."""
FAR_TOO_LONG = 20
"""Twice the input may take this many times the CPU time before its calls need not be counted to the end."""
ATTEMPTS = 8


class TooMuchWork(BaseException):
    """Cuts off a run that passed its limit. No `except Exception` of the code under test catches it."""


def _same(size: int) -> int:
    return size


def assert_linear(
    work: Callable[[Input], object],
    *,
    prepare: Callable[[int], Input] = _same,
    size: int = 1_000,
    most: float = MOST,
    limit: float = 2.0,
) -> None:
    """Fail unless `work(prepare(8 * n))` takes at most `most ** 3` times the CPU time of `work(prepare(n))`.

    `n` is a quarter of `size`, so that twice `size` is measured too, or the first of its doubles at which a run takes
    5 ms. `prepare` is not measured. A run at `n` that takes more than `limit` seconds of CPU time fails the test.
    """
    work(prepare(16))  # imports and caches fill outside of the measurement
    size, loops, first = _measurable(work, prepare, max(16, size >> DOUBLINGS - 1), limit)
    large, fewer, permitted = size << DOUBLINGS, max(1, loops >> DOUBLINGS), most**DOUBLINGS
    found, once, longest = [first / loops], 0.0, math.inf
    for _ in range(ATTEMPTS):
        # On a busy virtual machine the clock of a process may stop or jump, so no single short run counts.
        found.append(_seconds(work, prepare, size, loops, limit) / loops)
        once = median_high(found)
        cut = max(PATIENCE, HOPELESS * permitted * once)
        longest = min(longest, _seconds(work, prepare, large, fewer, cut) / fewer)
        if longest <= permitted * once:
            return
        gc.collect()
    ratio = f"{longest / once:.1f}" if longest < math.inf else f"more than {HOPELESS * permitted:.0f}"
    pytest.fail(
        f"{1 << DOUBLINGS} times the input cost {ratio} times the work, and at most {permitted:.1f} is linear:"
        f" {once:.5f} s of CPU time at size {size}, {longest:.5f} s at {large}"
    )


def assert_linear_calls(
    work: Callable[[Input], object],
    *,
    prepare: Callable[[int], Input] = _same,
    size: int = 200,
    most: float = MOST,
) -> None:
    """Fail unless `work(prepare(2 * size))` makes at most `most` times the function calls of `work(prepare(size))`.

    Calls of Python and of C functions count, those of other threads do not. Work inside one C call, such as a search
    of a regular expression or `in` over a list, is one call: measure that with `assert_linear`.
    """
    work(prepare(16))
    value = prepare(size)
    begun = time.process_time()
    once = count_calls(work, value)
    seconds = time.process_time() - begun
    permitted = int(most * once)
    value = prepare(2 * size)
    try:
        with cut_off(max(2.0, FAR_TOO_LONG * seconds)):
            is_linear = count_calls(work, value) <= permitted
    except TooMuchWork:
        is_linear = False
    if not is_linear:
        pytest.fail(f"{once} calls at size {size}, and more than {permitted} at {2 * size}")


def assert_linear_count(count: Callable[[int], int], *, size: int = 200, most: float = MOST) -> None:
    """Fail unless `count(2 * size)`, a number of steps, bytes or rows, is at most `most` times `count(size)`."""
    once, twice = count(size), count(2 * size)
    if twice > most * once:
        pytest.fail(f"{once} at size {size}, and {twice} at {2 * size}: more than {most} times as much")


def count_calls(work: Callable[[Input], object], value: Input) -> int:
    """Count the function calls of `work(value)` in this thread. The profiler is in C: one in Python is slower."""
    before, profiler = sys.getprofile(), cProfile.Profile()
    profiler.enable()
    try:
        work(value)
    finally:
        profiler.disable()
        sys.setprofile(before)
    return sum(entry.callcount for entry in profiler.getstats())


def _measurable(
    work: Callable[[Input], object], prepare: Callable[[int], Input], size: int, limit: float
) -> tuple[int, int, float]:
    """Find a size at which the work can be measured, how often to repeat it where even large inputs are quick, and the
    time that this took.
    """
    seconds = _seconds(work, prepare, size, 1, limit)
    while seconds < ENOUGH_SECONDS and size << DOUBLINGS + 2 <= LARGEST:
        size *= 4 if seconds < ENOUGH_SECONDS / 20 and size << DOUBLINGS + 4 <= LARGEST else 2
        seconds = _seconds(work, prepare, size, 1, limit)
    loops = 1
    while seconds < ENOUGH_SECONDS and loops < 1 << 14:
        loops *= 2
        seconds = _seconds(work, prepare, size, loops, limit)
    if seconds == math.inf:
        pytest.fail(f"A run at size {size} was cut off after {limit} s of CPU time")
    return size, loops, seconds


def _seconds(
    work: Callable[[Input], object], prepare: Callable[[int], Input], size: int, loops: int, limit: float
) -> float:
    """The CPU time of the whole process, threads included, for this many runs; infinite if it passed the limit."""
    inputs = [prepare(size) for _ in range(loops)]
    collecting = gc.isenabled()
    gc.disable()
    try:
        with cut_off(limit * loops):
            begun = time.process_time()
            for value in inputs:
                work(value)
            return max(time.process_time() - begun, 1e-9)
    except TooMuchWork:
        return math.inf
    finally:
        if collecting:
            gc.enable()


@contextmanager
def cut_off(seconds: float) -> Generator[None, None, None]:
    """Raise in the block once the process has used this much CPU time. Regular expressions are interrupted as well.

    SIGPROF leaves SIGALRM to the timeout of the tests. Outside of the main thread there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooMuchWork

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.05)  # repeatedly, in case a broad `except` swallows it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
