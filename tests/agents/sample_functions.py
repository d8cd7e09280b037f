"""Functions that agents under test are made of; they lie in a module so that another process can import them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def shout(text: str) -> str:
    return text.upper()


def process_id(text: str) -> int:
    return os.getpid()


def leave_a_trace_and_hang(text: str) -> str:
    """Append the id of this process to a file, then sleep for longer than any test."""
    with Path(text).open("a", encoding="utf-8") as trace:
        trace.write(f"{os.getpid()}\n")
    time.sleep(60)
    return "never"


def exit_at_once(text: str) -> str:
    raise SystemExit(3)


def interrupt_itself(text: str) -> str:
    raise KeyboardInterrupt


def end_the_process(text: str) -> str:
    os._exit(4)


def outlive_ctrl_c(text: str) -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return "still here"
