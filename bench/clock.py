"""The clock of a measured run: wall time, or the CPU time of this process with all its threads."""

import time
from collections.abc import Callable

_read: Callable[[], float] = time.perf_counter


def now() -> float:
    """The time in seconds."""
    return _read()


def measure_cpu() -> None:
    """Read CPU time from now on."""
    global _read  # noqa: PLW0603 - a process measures one case
    _read = time.process_time
