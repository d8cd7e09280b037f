"""A clock and random numbers that a resumed run repeats: derived from the run's seed, the scope and a counter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from math import isfinite

from teamwright.errors import UsageError


class ScopeClock:
    """The clock of one scope."""

    def __init__(
        self, seed: int, scope: str, now: Callable[[], float], sleep: Callable[[str, float], Awaitable[None]]
    ) -> None:
        self._seed, self._scope, self._now, self._sleep = seed, scope, now, sleep
        self._draws = self._sleeps = 0

    def now(self) -> float:
        """Return seconds since the epoch, as of the last event delivered to this run."""
        return self._now()

    def random(self) -> float:
        """Return a random number from 0 up to 1."""
        return int.from_bytes(self._draw(7)) / (1 << 56)

    def new_id(self) -> str:
        """Return an id that is unique within the run."""
        return self._draw(10).hex()

    async def sleep(self, seconds: float) -> None:
        """Wait; a crash does not restart the wait."""
        if not isinstance(seconds, int | float) or not isfinite(seconds):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"A wait takes a number of seconds, not {seconds!r:.100}.")
        self._sleeps += 1
        await self._sleep(f"sleep-{self._sleeps}", seconds)

    def _draw(self, size: int) -> bytes:
        self._draws += 1
        return blake2b(f"{self._seed}\0{self._scope}\0{self._draws}".encode(), digest_size=size).digest()
