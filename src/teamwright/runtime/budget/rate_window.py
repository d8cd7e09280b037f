"""The calls to a model in a sliding minute, with the tokens that each counts for, and the queue of those that wait.

Branches take turns in the queue, at every level, so that a branch with many calls holds up no other. Pure: callers pass
the time in, and the same calls in the same order at the same times give the same answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

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


T = TypeVar("T")


class FairQueue(Generic[T]):
    """Queued items, each under a path of branches: the run, a branch of it, a branch of that one.

    Invariant: at every level the branches with queued items take turns, one item each a round, in the order in which
    they joined; within one branch items come out first in, first out.
    """

    __slots__ = ("_children", "_items", "_turns")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._children: dict[Hashable, FairQueue[T]] = {}
        self._turns: deque[Hashable | None] = deque()
        """Branches in the order of their turns, by name; `None` is the turn of the items queued at this level."""

    def __bool__(self) -> bool:
        return bool(self._turns)

    def __iter__(self) -> Iterator[T]:
        """Yield all items, branch by branch."""
        yield from self._items
        for branch in self._children.values():
            yield from branch

    def push(self, path: Sequence[Hashable], item: T, depth: int = 0) -> None:
        if depth == len(path):
            if not self._items:
                self._turns.append(None)
            self._items.append(item)
            return
        name = path[depth]
        if name not in self._children:
            self._children[name] = FairQueue()
            self._turns.append(name)
        self._children[name].push(path, item, depth + 1)

    def peek(self) -> T:
        """Return the next item without removing it; the queue must not be empty."""
        name = self._turns[0]
        return self._items[0] if name is None else self._children[name].peek()

    def pop(self) -> T:
        """Remove and return the next item."""
        name = self._turns.popleft()
        if name is None:
            item, remaining = self._items.popleft(), bool(self._items)
        else:
            item, remaining = self._children[name].pop(), bool(self._children[name])
            if not remaining:
                del self._children[name]
        if remaining:
            self._turns.append(name)
        return item

    def remove(self, path: Sequence[Hashable], item: T, depth: int = 0) -> None:
        """Remove an item that no longer waits; it must be in the queue."""
        name = None if depth == len(path) else path[depth]
        if name is None:
            self._items.remove(item)
            remaining = bool(self._items)
        else:
            self._children[name].remove(path, item, depth + 1)
            remaining = bool(self._children[name])
            if not remaining:
                del self._children[name]
        if not remaining:
            self._turns.remove(name)
