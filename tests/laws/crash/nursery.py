"""A process that has imported everything and started nothing: it forks a child for each order, so that a child is there
in milliseconds and may be killed at any instant.

Orders and reports are lines of JSON on its standard streams. As a program it is the nursery; `Nursery` is its client.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any, Self

from tests.paths import ROOT

LONGEST_LIFE = 30
"""Seconds after which a child that hangs is ended by the alarm that it set itself."""


@dataclass(frozen=True)
class Order:
    """What a child is to do. `work` is `module:function`; the function takes the rest and returns JSON."""

    work: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Report:
    """How a child ended: by a signal, by an error, or with a value."""

    signal: int | None = None
    error: str | None = None
    value: Any = None

    @property
    def killed(self) -> bool:
        return self.signal == signal.SIGKILL


class Nursery:
    """The client's side; one order at a time per nursery."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(self, work: str, **arguments: Any) -> Report:
        """Let a child do it, and wait for its end; an error in it is raised here."""
        report = self.try_to(work, **arguments)
        if report.error is not None:
            raise AssertionError(f"the child failed:\n{report.error}")
        if report.signal not in (None, signal.SIGKILL):
            raise AssertionError(f"the child was ended by {signal.Signals(report.signal).name}")
        return report

    def try_to(self, work: str, **arguments: Any) -> Report:
        """Let a child do it, and wait for its end, whatever that is."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(asdict(Order(work, arguments))) + "\n")
            self._process.stdin.flush()
            return Report(**json.loads(self._process.stdout.readline()))


def serve() -> None:
    """Take orders until nobody gives any."""
    for line in sys.stdin:
        order = Order(**json.loads(line))
        module, _, name = order.work.partition(":")
        function = getattr(import_module(module), name)
        if warm := getattr(import_module(module), "warm_up", None):
            warm(**order.arguments)
        print(json.dumps(asdict(in_child(function, order.arguments))), flush=True)


def in_child(function: Callable[..., Any], arguments: dict[str, Any]) -> Report:
    """Fork, let the child work, and say how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _live(function, arguments, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Report(signal=os.WTERMSIG(status))
    return Report(**json.loads(told))


def _live(function: Callable[..., Any], arguments: dict[str, Any], writing: int) -> None:
    """A child's whole life; it never returns to the nursery's code."""
    signal.alarm(LONGEST_LIFE)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        report = Report(value=function(**arguments))
    except BaseException:  # noqa: BLE001 - it is told to whoever gave the order
        report = Report(error=traceback.format_exc())
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(asdict(report)).encode())
    os._exit(0)


if __name__ == "__main__":
    serve()
