"""What Ctrl-C does: it ends the process at once, except where something has to be finished or undone first.

An interrupt that Python raises inside an import, a finalizer or a library can come out as another error, or vanish.
What is recorded is durable at any instant, so ending the process loses nothing. While a run is driven, Ctrl-C
interrupts the run instead. Nothing heavy is imported here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

INTERRUPTED = 130


@contextmanager
def interrupts_end_at_once() -> Generator[None]:
    """For the time of the block, SIGINT ends the process; where the caller ignores or handles it, nothing changes."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def interrupts_raise() -> Generator[None]:
    """For the time of the block, SIGINT raises KeyboardInterrupt: child processes or a question have to be ended."""
    if signal.getsignal(signal.SIGINT) is not _exit:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _exit)


def _exit(*_: object) -> None:
    os._exit(INTERRUPTED)
