"""Assertions on how work grows with its input: doubling the input may cost at most 2.5 times the work.

`assert_linear` measures CPU time and suits everything, C code such as regular expressions included. It compares a size
with its double, so it does not depend on the machine's speed. Where one pair of runs leaves doubt, it takes the best of
interleaved repeats, and it measures again before it fails. `assert_linear_calls` counts function calls and is exact; it
suits pure Python. `assert_linear_count` compares numbers that the code under test counts itself. None of them hangs on
code that is not linear: a run is cut off at a CPU limit.

    assert_linear(redactor.text, prepare=lambda size: "sk-" * size)
    assert_linear(lambda size: anyio.run(run_team, size), size=100)

Pass `size` where slow growth shows at large inputs only: the measurement starts there.
"""

from __future__ import annotations

import cProfile
import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from statistics import median
from types import FrameType
from typing import TypeVar

import pytest

Input = TypeVar("Input")

MOST = 2.5
"""The permitted ratio of work for twice the input."""
CLEARLY_LESS = 0.9
"""One pair of runs suffices if its ratio is at most this part of what is permitted."""
BEYOND_DOUBT = 3.4
"""A ratio that no noise explains: quadratic work has 4."""
ENOUGH_SECONDS = 0.01
"""A measurement below this is noise: the input grows, or the work is repeated, until it takes as long."""
LARGEST = 1 << 22
"""The largest input while searching for a size."""
FAR_TOO_LONG = 20
"""Twice the input may take this many times the CPU time before its calls need not be counted to the end."""
REPEATS = 3
ATTEMPTS = 4


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
    """Fail unless `work(prepare(2 * n))` takes at most `most` times the CPU time of `work(prepare(n))`.

    `n` is `size`, or the first of its doubles at which a run takes 10 ms. `prepare` is not measured. A run that takes
    more than `limit` seconds of CPU time is cut off and fails the test.
    """
    work(prepare(16))  # imports and caches fill outside of the measurement
    size, loops, before = _measurable(work, prepare, size, limit)
    once, twice = (_seconds(work, prepare, each, loops, limit) for each in (size, 2 * size))
    once = min(once, before)  # a run that something slowed down must not make twice its input look cheap
    if twice <= CLEARLY_LESS * most * once:
        return
    for attempt in range(ATTEMPTS):
        if attempt == ATTEMPTS // 2 and 4 * size <= LARGEST:
            size *= 2  # a longer run is less affected by other processes
        gc.collect()
        pairs = [[_seconds(work, prepare, each, loops, limit) for each in (size, 2 * size)] for _ in range(REPEATS)]
        once, twice = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        # Other processes on the core slow some runs down, which distorts these two in different ways.
        ratio = min(twice / once, median(pair[1] / pair[0] for pair in pairs))
        if ratio <= most:
            return
        if attempt and ratio > BEYOND_DOUBT:
            break
    pytest.fail(
        f"Twice the input cost {twice / once:.1f} times the work, and at most {most} is linear:"
        f" {once / loops:.4f} s of CPU time at size {size}, {twice / loops:.4f} s at {2 * size}"
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
    while seconds < ENOUGH_SECONDS and 4 * size <= LARGEST:
        size *= 4 if seconds < ENOUGH_SECONDS / 20 and 16 * size <= LARGEST else 2
        seconds = _seconds(work, prepare, size, 1, limit)
    loops = 1
    while seconds < ENOUGH_SECONDS and loops < 1 << 14:
        loops *= 2
        seconds = _seconds(work, prepare, size, loops, limit)
    return size, loops, seconds


def _seconds(
    work: Callable[[Input], object], prepare: Callable[[int], Input], size: int, loops: int, limit: float
) -> float:
    """The CPU time of the whole process, threads included, for this many runs."""
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
        pytest.fail(f"A run at size {size} was cut off after {limit} s of CPU time")
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
