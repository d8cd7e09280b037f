"""Makes Ctrl-C end the process at once, except where something has to be finished or undone first.

A KeyboardInterrupt inside an import, a finalizer or a library can surface as another error, or vanish. The record is
durable at any instant, so ending the process loses nothing. While a run is driven, Ctrl-C interrupts the run instead.
This module imports nothing heavy.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

INTERRUPTED = 130


@contextmanager
def exit_on_interrupt() -> Generator[None]:
    """Let SIGINT end the process within the block, unless the caller ignores or handles it."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def raise_on_interrupt() -> Generator[None]:
    """Let SIGINT raise KeyboardInterrupt within the block, which has child processes or a prompt to end."""
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
