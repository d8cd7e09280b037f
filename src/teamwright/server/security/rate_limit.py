"""Limits how often one address may call: a bucket of tokens that fills up again."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

MOST_ADDRESSES = 10_000


class RateLimit:
    """Allows `burst` calls at once and `per_second` in the long run, for each address."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Take a call; returns 0, or the seconds after which one is allowed again."""
        tokens = self._tokens(address)
        if tokens < 1:
            return (1 - tokens) / self._rate
        self._put(address, tokens - 1)
        return 0.0

    def _tokens(self, address: str) -> float:
        tokens, at = self._buckets.get(address, (self._burst, self._clock()))
        return min(self._burst, tokens + (self._clock() - at) * self._rate)

    def _put(self, address: str, tokens: float) -> None:
        self._buckets[address] = tokens, self._clock()
        self._buckets.move_to_end(address)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
