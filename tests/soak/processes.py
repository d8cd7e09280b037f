"""Command-line processes of the soak: started in a session of their own, stopped within a time, with nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from tests.kit.program import Program

GRACE = 10.0
"""Seconds within which a stopped run must end."""
SLOWNESS = 10.0
"""Seconds more, for a machine that is busy with other tests."""
LONGEST = 120.0


class Process:
    """One command under way."""

    def __init__(self, arguments: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
        self.arguments, self.log = arguments, log
        self._out: IO[bytes] = log.open("wb")
        self._child = Program(
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
        )

    @property
    def running(self) -> bool:
        return self._child.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command itself, not to its children."""
        if self.running:
            self._child.send_signal(number)

    def wait(self, seconds: float = LONGEST) -> int | None:
        """The exit code, or nothing where it has not ended in time."""
        try:
            code = self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._out.close()
        return code

    def left_behind(self, seconds: float = 5.0) -> bool:
        """Whether processes of its session still live a while after it has ended."""
        end = time.monotonic() + seconds
        while _lives(self._child.pid):
            if time.monotonic() > end:
                return True
            time.sleep(0.05)
        return False

    def text(self) -> str:
        """Its output."""
        return self.log.read_text(errors="replace")

    def end(self) -> None:
        """End it and all of its session, whatever it does."""
        if _lives(self._child.pid):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()
        self._out.close()


def _lives(group: int) -> bool:
    """Whether a process group has members that are no zombies; one that was just reaped has none."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
