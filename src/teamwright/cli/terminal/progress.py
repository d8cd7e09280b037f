"""Prints the progress of long work on stderr, a line every few seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from teamwright.cli.terminal.output import say

INTERVAL = 2.0
"""Seconds between two lines, and before the first one."""


@dataclass(slots=True)
class ProgressCounter:
    """A progress callback; `what` names the things that it counts."""

    what: str
    _printed_at: float = field(default_factory=time.monotonic)

    def __call__(self, done: int, total: int) -> None:
        """Print the progress, unless the work is done or the last line is recent."""
        now = time.monotonic()
        if done < total and now - self._printed_at >= INTERVAL:
            self._printed_at = now
            say(f"{done} of {total} {self.what}")
