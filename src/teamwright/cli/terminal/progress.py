"""Tells on stderr how far long work has come: nothing at first, and then a line every few seconds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from teamwright.cli.terminal.output import say

PATIENCE = 2.0
"""Seconds that pass without a word."""


@dataclass(slots=True)
class Counter:
    """Counts what is done; `what` is what is counted."""

    what: str
    _told: float = field(default_factory=time.monotonic)

    def __call__(self, done: int, total: int) -> None:
        """Say it, if nothing was said for a while and there is still something to wait for."""
        now = time.monotonic()
        if done < total and now - self._told >= PATIENCE:
            self._told = now
            say(f"{done} of {total} {self.what}")
