"""A process that has imported everything and forks a child for each job, so that a child starts in milliseconds and
may be killed at any instant.

Jobs and results are lines of JSON on its standard streams. Run as a program, this module is the server; `ForkServer` is
its client.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any, Self

from tests.paths import ROOT

LONGEST_LIFE = 30
"""Seconds after which a child that hangs is ended by its own alarm."""
LONGEST_JOB = LONGEST_LIFE + 5
"""Seconds after which a server that hangs itself tells where, and ends."""
MOST_PRINTED = 20_000


@dataclass(frozen=True)
class Job:
    """The work of a child: `module:function` and its arguments. The function returns JSON."""

    work: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    number: int = 0


@dataclass(frozen=True)
class JobResult:
    """The end of a child: a signal, an error, or a value. `number` is that of its job."""

    signal: int | None = None
    error: str | None = None
    value: Any = None
    number: int = 0

    @property
    def killed(self) -> bool:
        return self.signal == signal.SIGKILL


class ForkServer:
    """The client; a server runs one job at a time. What hangs is ended, and the test says where it hung."""

    def __init__(self) -> None:
        self._lock, self._sent = threading.Lock(), 0
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the server
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=pipe, stdout=pipe, stderr=self._errors, cwd=ROOT, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def run(self, work: str, **arguments: Any) -> JobResult:
        """Run a job in a child and wait for its end; an error in the child is raised here."""
        report = self.try_to(work, **arguments)
        if report.error is not None:
            raise AssertionError(f"the child failed:\n{report.error}")
        if report.signal not in (None, signal.SIGKILL):
            raise AssertionError(f"the child was ended by {signal.Signals(report.signal).name}:\n{self._printed()}")
        return report

    def try_to(self, work: str, **arguments: Any) -> JobResult:
        """Run a job in a child and wait for its end, whatever that is."""
        with self._lock:
            return self._receive(self.send(work, **arguments))

    def send(self, work: str, **arguments: Any) -> int:
        """Send a job, and return its number."""
        assert self._process.stdin is not None
        self._sent += 1
        self._process.stdin.write(json.dumps(asdict(Job(work, arguments, self._sent))) + "\n")
        self._process.stdin.flush()
        return self._sent

    def _receive(self, number: int) -> JobResult:
        """Wait for the result of a job; results of jobs whose tests ran out of time are passed over."""
        assert self._process.stdout is not None
        while True:
            if not (line := self._process.stdout.readline()):
                raise AssertionError(f"the fork server ended:\n{self._printed()}")
            result = JobResult(**json.loads(line))
            if result.number == number:
                return result

    def _printed(self) -> str:
        """The end of what the server and its children have printed, such as the stacks of one that hung."""
        file = self._errors.fileno()
        return os.pread(file, MOST_PRINTED, max(0, os.fstat(file).st_size - MOST_PRINTED)).decode(errors="replace")


def serve() -> None:
    """Run jobs until standard input ends."""
    for line in sys.stdin:
        order = Job(**json.loads(line))
        module, _, name = order.work.partition(":")
        function = getattr(import_module(module), name)
        faulthandler.dump_traceback_later(LONGEST_JOB, exit=True)
        if warm := getattr(import_module(module), "warm_up", None):
            warm(**order.arguments)
        gc.freeze()  # else a child's first collection copies every page of this process
        result = replace(in_child(function, order.arguments), number=order.number)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(asdict(result)), flush=True)


def in_child(function: Callable[..., Any], arguments: dict[str, Any]) -> JobResult:
    """Fork a child, run the function in it, and return how it ended."""
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
        return JobResult(signal=os.WTERMSIG(status))
    return JobResult(**json.loads(told))


def _live(function: Callable[..., Any], arguments: dict[str, Any], writing: int) -> None:
    """Run the function in the child and exit; never return to the server's code."""
    faulthandler.register(signal.SIGALRM, chain=True)  # print all stacks, then end
    signal.alarm(LONGEST_LIFE)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        report = JobResult(value=function(**arguments))
    except BaseException:  # noqa: BLE001 - the client gets the traceback
        report = JobResult(error=traceback.format_exc())
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps(asdict(report)).encode())
    os._exit(0)


if __name__ == "__main__":
    serve()
