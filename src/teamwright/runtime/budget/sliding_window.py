"""The calls to a model in a sliding minute: when the next one may leave, and the tokens that each counts for.

Pure: callers pass the time in, so the same calls at the same times give the same answers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from teamwright.values.limits import Pace

MINUTE = 60.0
FIRST_OUTPUT = 512.0
"""Output tokens expected of a call before the first reply has arrived."""
AVERAGED_REPLIES = 8
"""About how many replies the average output length covers."""


@dataclass(slots=True, eq=False)
class Departure:
    """One dispatched call, and the tokens it counts for."""

    time: float
    tokens: int
    counted: bool = True


class RateWindow:
    """The calls dispatched within the last minute.

    Invariant: a call is admitted only if, with it, at most the declared requests and tokens have left in the sixty
    seconds up to now, so no sixty seconds ever hold more. A call larger than a minute's tokens counts as the whole
    minute. Only a provider that reports more tokens than were estimated can break the token limit, and then the window
    admits nothing until that call has left it.
    """

    def __init__(self) -> None:
        self._departures: deque[Departure] = deque()
        self._requests = self._tokens = 0
        self._max_requests = self._max_tokens = 0
        self._average_output = FIRST_OUTPUT

    def set_limits(self, pace: Pace) -> None:
        """Apply these limits from now on."""
        self._max_requests, self._max_tokens = pace.requests_per_minute or 0, pace.tokens_per_minute or 0

    @property
    def is_limited(self) -> bool:
        """Whether the window has any limit."""
        return bool(self._max_requests or self._max_tokens)

    def estimate(self, prompt_bytes: int, cap: int | None) -> int:
        """Estimate a call's tokens: a quarter of the prompt's bytes, plus the average output up to its cap."""
        output = int(self._average_output) if cap is None else min(cap, int(self._average_output))
        tokens = -(-prompt_bytes // 4) + output
        return min(tokens, self._max_tokens) if self._max_tokens else tokens

    def opens_at(self, now: float, tokens: int) -> float:
        """Return when to check again whether a call may be dispatched: `now` if it may already."""
        self._expire(now)
        full = self._max_requests and self._requests >= self._max_requests
        # An empty window admits any call, even one whose estimate dates from a higher limit.
        heavy = self._max_tokens and self._tokens and self._tokens + tokens > self._max_tokens
        return self._departures[0].time + MINUTE if full or heavy else now

    def record_departure(self, now: float, tokens: int) -> Departure:
        """Count a call that is dispatched now."""
        departure = Departure(now, tokens)
        self._departures.append(departure)
        self._requests += 1
        self._tokens += tokens
        return departure

    def settle(self, departure: Departure, tokens: int) -> None:
        """Replace a call's estimate by the tokens it really used."""
        if departure.counted:
            self._tokens += tokens - departure.tokens
        departure.tokens = tokens

    def learn_output(self, output: int) -> None:
        """Update the average output length with that of a new reply."""
        self._average_output += (output - self._average_output) / AVERAGED_REPLIES

    def remove(self, departure: Departure) -> None:
        """Stop counting a call that was never sent."""
        if departure.counted:
            self._drop(departure)
            self._departures.remove(departure)

    def _expire(self, now: float) -> None:
        while self._departures and self._departures[0].time + MINUTE <= now:
            self._drop(self._departures.popleft())

    def _drop(self, departure: Departure) -> None:
        departure.counted = False
        self._requests -= 1
        self._tokens -= departure.tokens
