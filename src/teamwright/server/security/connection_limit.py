"""Limits how many requests, streams and sockets are open at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager


class ConnectionLimit:
    """Counts what is open for each holder: an address, or the visitor who shows a token or session."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def held(self, holder: str) -> Generator[bool]:
        """Count a connection within this block; yields whether there may be one more."""
        if self._open[holder] >= self._most:
            yield False
            return
        self._open[holder] += 1
        try:
            yield True
        finally:
            self._open[holder] -= 1
            if not self._open[holder]:
                del self._open[holder]
