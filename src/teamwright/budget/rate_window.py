"""How fast one model may be called: what left within the last minute, and how many calls may be out at once.

Pure: time is always handed in, so the same calls at the same times give the same answers.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from teamwright.values.limits import Pace

MINUTE = 60.0
CONCURRENCY = 32
"""Calls that may be out at one model where nothing is declared."""
FIRST_OUTPUT = 512.0
"""Tokens that a reply is expected to have before any has come."""
GROWTH = 0.25
"""By how much a call that came back well widens what was narrowed."""
MEMORY = 8
"""About so many replies make the usual length of the next."""


@dataclass(slots=True, eq=False)
class Departure:
    """One call that left, and the tokens it counts for."""

    time: float
    tokens: int
    counted: bool = True


class Window:
    """The calls of the last minute.

    Invariant: a call is let in only if, with it, at most the declared requests and tokens have left in the sixty
    seconds up to now, so no sixty seconds ever hold more. A call that alone is larger than a minute's tokens counts as
    the whole minute. Only what a provider reports beyond the estimate can break the bound on tokens, and then nobody
    else is let in until it has left the window.
    """

    def __init__(self) -> None:
        self._log: deque[Departure] = deque()
        self._requests = self._tokens = 0
        self._most_requests = self._most_tokens = 0
        self._usual_output = FIRST_OUTPUT

    def bound(self, pace: Pace) -> None:
        """Hold these bounds from now on."""
        self._most_requests, self._most_tokens = pace.requests_per_minute or 0, pace.tokens_per_minute or 0

    @property
    def bounded(self) -> bool:
        """Whether there is anything to hold."""
        return bool(self._most_requests or self._most_tokens)

    def estimate(self, prompt_bytes: int, cap: int | None) -> int:
        """What a call will count for: a quarter of the prompt's bytes, and the usual output up to its cap."""
        output = int(self._usual_output) if cap is None else min(cap, int(self._usual_output))
        tokens = -(-prompt_bytes // 4) + output
        return min(tokens, self._most_tokens) if self._most_tokens else tokens

    def opens(self, now: float, tokens: int) -> float:
        """When to look again whether a call may leave; not after now if it may."""
        self._forget(now)
        full = self._most_requests and self._requests >= self._most_requests
        # An empty window takes any call, also one that was estimated under a wider bound.
        heavy = self._most_tokens and self._tokens and self._tokens + tokens > self._most_tokens
        return self._log[0].time + MINUTE if full or heavy else now

    def leave(self, now: float, tokens: int) -> Departure:
        """Count a call that leaves."""
        departure = Departure(now, tokens)
        self._log.append(departure)
        self._requests += 1
        self._tokens += tokens
        return departure

    def settle(self, departure: Departure, tokens: int) -> None:
        """Put what a call really cost in place of its estimate."""
        if departure.counted:
            self._tokens += tokens - departure.tokens
        departure.tokens = tokens

    def learn(self, output: int) -> None:
        """A reply had so many tokens."""
        self._usual_output += (output - self._usual_output) / MEMORY

    def withdraw(self, departure: Departure) -> None:
        """The call never left."""
        if departure.counted:
            self._drop(departure)
            self._log.remove(departure)

    def _forget(self, now: float) -> None:
        while self._log and self._log[0].time + MINUTE <= now:
            self._drop(self._log.popleft())

    def _drop(self, departure: Departure) -> None:
        departure.counted = False
        self._requests -= 1
        self._tokens -= departure.tokens


class Width:
    """How many calls may be out at once, from one to `most`.

    When the provider asks to slow down it becomes half of those that were out, once for all of them: an epoch ends. It
    grows by one with every fourth call that comes back well.
    """

    def __init__(self, most: int = CONCURRENCY) -> None:
        self.most = most
        self._wide = float(most)
        self.epoch: int = 0

    @property
    def now(self) -> int:
        """The number as it stands."""
        return int(self._wide)

    def bound(self, most: int) -> None:
        """Hold another upper bound; who was not slowed down goes up with it."""
        free = self._wide >= self.most
        self.most = most
        self._wide = float(most) if free else min(self._wide, most)

    def narrow(self, out: int, epoch: int) -> bool:
        """A call of that epoch was told to slow down while `out` were out; says whether it is the first to tell.

        A call that was out alone says nothing about how many are too many.
        """
        if epoch != self.epoch:
            return False
        self.epoch += 1
        if out > 1:
            self._wide = max(1.0, min(self._wide, out) / 2)
        return True

    def widen(self, epoch: int) -> bool:
        """A call of that epoch came back well; says whether this brought the width back to the most."""
        if self._wide >= self.most or epoch != self.epoch:
            return False
        self._wide = min(float(self.most), self._wide + GROWTH)
        return self._wide >= self.most
