"""One rate limiter for each model of an engine, shared by all its runs, their branches and nested teams.

Only a call in flight holds a slot. Time is the event loop's, so that a loop with a virtual clock needs no real waiting.
Nothing here may await while it holds a slot. Through `SharedLimits`, several engines keep limits together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from teamwright.agents.effect import Effect
from teamwright.errors import AgentError, LimitReached, RateLimited
from teamwright.runtime.budget.ledger import Unavailable
from teamwright.values.events.budget import BudgetEased, BudgetThrottled
from teamwright.values.limits import Pace
from teamwright.values.usage_and_prices import Usage

T = TypeVar("T")
MINUTE = 60.0
FIRST_OUTPUT = 512.0
"""Output tokens expected of a call before the first reply has arrived."""
AVERAGED_REPLIES = 8
"""About how many replies the average output length covers."""
CONCURRENCY = 32
"""Calls in flight that one model may have where the manifest declares no limit."""
GROWTH = 0.25
"""By how much each successful call raises a concurrency limit that was decreased."""
LONGEST_COOLDOWN = 60.0
"""Longest pause, in seconds, that one response of a provider can impose on all calls to a model."""
MIN_REPORTED_GROWTH = 1.0
"""Seconds by which a cooldown must grow to be reported again."""


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
        self._max_requests, self._max_tokens = pace.per_minute.calls or 0, pace.per_minute.tokens or 0

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


class Window(Protocol):
    """Decides when the next call to a model may be dispatched, and counts those that were."""

    @property
    def is_limited(self) -> bool: ...

    def set_limits(self, pace: Pace) -> None:
        """Apply these limits from now on."""
        ...

    def estimate(self, prompt_bytes: int, cap: int | None) -> int:
        """Estimate a call's tokens."""
        ...

    def opens_at(self, now: float, tokens: int) -> float:
        """Return when to check again whether a call may be dispatched: `now` if it may already."""
        ...

    def record_departure(self, now: float, tokens: int) -> Departure:
        """Count a call that is dispatched now."""
        ...

    def settle(self, departure: Departure, tokens: int) -> None:
        """Replace a call's estimate by the tokens it really used."""
        ...

    def learn_output(self, output: int) -> None:
        """Update the average output length with that of a new reply."""
        ...

    def remove(self, departure: Departure) -> None:
        """Stop counting a call that was never sent."""
        ...


class PaceShare(Window, Protocol):
    """The part of a model's pace that this process may use now. It never awaits."""

    def calls_changed(self) -> None:
        """Calls have begun to wait, or have ended."""
        ...

    def throttled(self, seconds: float) -> None:
        """The provider asked to slow down, and to send nothing for so long."""
        ...

    def answered(self) -> None:
        """A call has succeeded."""
        ...


class SharingLimiter(Protocol):
    """What a share needs of the rate limiter that it belongs to."""

    name: str
    in_flight: int

    @property
    def waiting(self) -> list[int]:
        """The estimated tokens of each waiting call; the call that is served next comes first."""
        ...

    def allow(self, slots: int | None) -> None:
        """Have at most so many calls in flight; `None` sets no bound."""
        ...

    def cool_down(self, seconds: float) -> None:
        """Make no call for so long."""
        ...

    def serve(self) -> None:
        """Grant slots to waiting calls."""
        ...


class SharedLimits(Protocol):
    """Limits that the engines of several processes keep together. An engine opens, keeps and closes them."""

    async def open(self) -> None: ...

    async def keep(self) -> None:
        """Keep the shares of this process up to date, until cancelled."""
        ...

    async def close(self) -> None:
        """Give back what this process holds."""
        ...

    def join(self, model: str, limiter: SharingLimiter) -> PaceShare | None:
        """Return the share of this process in the pace of a model; `None` if no other process calls the same."""
        ...


class ConcurrencyLimit:
    """How many calls may be in flight at once, from one to `maximum`: additive increase, multiplicative decrease.

    When the provider asks to slow down, the limit becomes half of the calls in flight, once for all of them: a new
    epoch begins. Every fourth successful call raises it by one.
    """

    def __init__(self, maximum: int = CONCURRENCY) -> None:
        self.maximum = maximum
        self._limit = float(maximum)
        self.epoch: int = 0
        self.share: int | None = None
        """The part of the calls that this process may make, if it shares the limit with others."""

    @property
    def current(self) -> int:
        return int(self._limit) if self.share is None else min(int(self._limit), self.share)

    def set_maximum(self, maximum: int) -> None:
        """Set another maximum; a limit that has not been decreased rises with it."""
        reached = self._limit >= self.maximum
        self.maximum = maximum
        self._limit = float(maximum) if reached else min(self._limit, maximum)

    def decrease(self, in_flight: int, epoch: int) -> bool:
        """Halve the limit after a call of that epoch was rate limited; returns whether it is the first of its epoch.

        A call that was in flight alone says nothing about how many are too many.
        """
        if epoch != self.epoch:
            return False
        self.epoch += 1
        if in_flight > 1:
            self._limit = max(1.0, min(self._limit, in_flight) / 2)
        return True

    def increase(self, epoch: int) -> bool:
        """Raise the limit after a successful call of that epoch; returns whether this restored the maximum."""
        if self._limit >= self.maximum or epoch != self.epoch:
            return False
        self._limit = min(float(self.maximum), self._limit + GROWTH)
        return self._limit >= self.maximum


class RateLimiters:
    """The rate limiters of one engine, each created when its model is first called.

    With `shared`, the engine keeps the pace of each model together with other processes.
    """

    def __init__(self, shared: SharedLimits | None = None) -> None:
        self._limiters: dict[str, RateLimiter] = {}
        self._shared = shared

    def for_effect(self, effect: Effect) -> RateLimiter:
        """Return the limiter of the model that an effect calls, with the pace that the effect declares applied."""
        limiter = self._limiters.get(effect.model)
        if limiter is None:
            limiter = self._limiters[effect.model] = RateLimiter(effect.name)
            if self._shared is not None and (share := self._shared.join(effect.model, limiter)) is not None:
                limiter.window = limiter.share = share
        if effect.pace is not None and effect.pace is not limiter.pace:
            limiter.declare(effect.pace)
        return limiter


class Slot:
    """Permission for one call to a model; ended by the first of `returned`, `failed`, `cancel` and `close`."""

    __slots__ = ("_departure", "_epoch", "_limiter", "cooldown", "waited")

    def __init__(self, limiter: RateLimiter, departure: Departure | None, epoch: int) -> None:
        self._limiter: RateLimiter | None = limiter
        self._departure, self._epoch = departure, epoch
        self.waited = self.cooldown = 0.0
        """Seconds spent waiting for the slot, and seconds of cooldown that the call's failure has caused."""

    def returned(self, usage: Usage) -> BudgetEased | None:
        """End the slot of a call that succeeded; returns the fact to record if the model is at full speed again."""
        limiter = self._end()
        if limiter is None:
            return None
        if self._departure is not None and usage.requests:
            limiter.window.settle(self._departure, usage.total_tokens)
            limiter.window.learn_output(usage.output_tokens)
        eased = limiter.speed_up(self._epoch)
        limiter.serve()
        return eased

    def failed(self, error: AgentError, wait: float | None, longest: float | None = None) -> BudgetThrottled | None:
        """End the slot of a failed call; returns the fact to record if the model is called slower from now on.

        `wait` is the backoff before the next attempt, if there is one, and `longest` bounds every wait.
        """
        limiter = self._end()
        if limiter is None:
            return None
        if self._departure is not None and not error.unknown_cost:
            limiter.window.settle(self._departure, 0)
        limited = isinstance(error, RateLimited)
        throttled = limiter.slow_down(error, self._epoch, wait, longest) if limited else None
        self.cooldown = limiter.cooldown
        limiter.serve()
        return throttled

    def cancel(self) -> None:
        """End the slot of a call that was never sent, as if it had not been acquired."""
        if (limiter := self._end()) is not None:
            if self._departure is not None:
                limiter.window.remove(self._departure)
            limiter.serve()

    def close(self) -> None:
        """End the slot of a call with an unknown outcome: its estimate stays counted."""
        if (limiter := self._end()) is not None:
            limiter.serve()

    def _end(self) -> RateLimiter | None:
        """Release the slot, once; returns its limiter the first time."""
        limiter, self._limiter = self._limiter, None
        if limiter is not None:
            limiter.in_flight -= 1
        return limiter


class _SlotWaiter:
    __slots__ = ("granted", "queued", "take_other", "tokens")

    def __init__(self, tokens: int, granted: asyncio.Future[Slot], take_other: Callable[[], None] | None) -> None:
        self.tokens, self.granted, self.take_other, self.queued = tokens, granted, take_other, True


class RateLimiter:
    """How fast one model is called: requests and tokens per minute, and calls in flight, which adapts to its responses.

    Invariant: when a slot is granted, `in_flight` stays within the concurrency limit of that moment and the model is
    not cooling down; waiting calls are served in rounds over runs and their branches.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pace: Pace | None = None
        self.in_flight = 0
        self.concurrency = ConcurrencyLimit()
        self.window: Window = RateWindow()
        self.share: PaceShare | None = None
        """What this process may use of the pace, if it shares the pace with others; then it is the window too."""
        self._cooldown_until = self._usual_cooldown = 0.0
        self._reported_limit, self._reported_at, self._slowed = 0, -MINUTE, False
        self._waiting: FairQueue[_SlotWaiter] = FairQueue()
        self._timer: asyncio.TimerHandle | None = None

    def declare(self, pace: Pace) -> None:
        """Apply a declared pace; the tighter of both while another declaration is in use."""
        in_use = self.pace is not None and (self.in_flight > 0 or bool(self._waiting))
        self.pace = self.pace.tightened(pace) if self.pace is not None and in_use else pace
        self.window.set_limits(self.pace)
        self.concurrency.set_maximum(self.pace.max_parallel or CONCURRENCY)

    def try_acquire(self, prompt_bytes: int = 0, cap: int | None = None) -> Slot | None:
        """Return a slot now, or `None` if the call would have to wait."""
        if self._waiting or self.in_flight >= self.concurrency.current:
            return None
        if not self._cooldown_until and not self.window.is_limited:
            return self._slot(0.0, 0)
        now, tokens = asyncio.get_running_loop().time(), self.window.estimate(prompt_bytes, cap)
        return self._slot(now, tokens) if self._opens_at(now, tokens) <= now else None

    async def acquire(
        self,
        branch: Sequence[Hashable],
        prompt_bytes: int = 0,
        cap: int | None = None,
        take_other: Callable[[], None] | None = None,
    ) -> Slot:
        """Wait for a slot until it is this branch's turn; `branch` is the path of branches that the call is in.

        `take_other` takes whatever else the call needs, at the instant of the grant, or raises `Unavailable` or
        `LimitReached`.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        waiter = _SlotWaiter(self.window.estimate(prompt_bytes, cap), loop.create_future(), take_other)
        self._waiting.push(branch, waiter)
        self.serve()
        try:
            slot = await waiter.granted
        except asyncio.CancelledError:
            if waiter.queued:
                self._waiting.remove(branch, waiter)
                self.serve()
            elif not waiter.granted.cancelled() and waiter.granted.exception() is None:  # granted in the same instant
                waiter.granted.result().cancel()
            raise
        slot.waited = loop.time() - started
        return slot

    @property
    def waiting(self) -> list[int]:
        """The estimated tokens of each waiting call; the call that is served next comes first."""
        if not self._waiting:
            return []
        first = self._waiting.peek()
        return [first.tokens, *(one.tokens for one in self._waiting if one is not first)]

    def serve(self) -> None:
        """Grant slots to waiting calls while there are any, and schedule the next check for the others."""
        self._serve()
        if self.share is not None:
            self.share.calls_changed()

    def _serve(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting and self.in_flight < self.concurrency.current:
            waiter = self._waiting.peek()
            cancelled = waiter.granted.done()
            if not cancelled and (when := self._opens_at(now, waiter.tokens)) > now:
                self._timer = loop.call_at(when, self.serve)
                return
            self._waiting.pop().queued = False
            if not cancelled:
                self._grant(waiter, now)

    def _grant(self, waiter: _SlotWaiter, now: float) -> None:
        try:
            if waiter.take_other is not None:
                waiter.take_other()
        except (Unavailable, LimitReached) as error:
            waiter.granted.set_exception(error)
        else:
            waiter.granted.set_result(self._slot(now, waiter.tokens))

    @property
    def cooldown(self) -> float:
        """Seconds until the provider accepts calls again."""
        return max(0.0, self._cooldown_until - asyncio.get_running_loop().time()) if self._cooldown_until else 0.0

    def slow_down(
        self, error: RateLimited, epoch: int, wait: float | None, longest: float | None = None
    ) -> BudgetThrottled | None:
        """Cool down as long as the provider asks and lower concurrency; returns the fact to record if it is news.

        If the provider names no time, lower concurrency is the only answer, except for a call that was in flight alone:
        then the model cools down for that call's own backoff, or for the one before it if the call gives up. No
        cooldown is longer than the `longest` wait of the call's retry policy.
        """
        now, before, alone = asyncio.get_running_loop().time(), self.concurrency.current, not self.in_flight
        if self.concurrency.decrease(self.in_flight + 1, epoch) and alone and wait is not None:
            self._usual_cooldown = wait
        most = LONGEST_COOLDOWN if longest is None else min(longest, LONGEST_COOLDOWN)
        cooldown = min(error.retry_after or (self._usual_cooldown if alone else 0.0), most)
        if self.share is not None:
            self.share.throttled(cooldown)
        known = max(now, self._cooldown_until)
        self._cooldown_until = max(known, now + cooldown)
        current = self.concurrency.current
        lower = current < before and (current < self._reported_limit or now >= self._reported_at + MINUTE)
        if not lower and self._cooldown_until - known < MIN_REPORTED_GROWTH:
            return None
        self._reported_limit, self._reported_at, self._slowed = current, now, True
        seconds = round(self._cooldown_until - now, 3)
        return BudgetThrottled(model=self.name, before=before, after=current, seconds=seconds)

    def allow(self, slots: int | None) -> None:
        """Have at most so many calls in flight, because other processes call the model as well."""
        self.concurrency.share = slots

    def cool_down(self, seconds: float) -> None:
        """Make no call for so long, because the provider has asked another process to slow down."""
        self._cooldown_until = max(self._cooldown_until, asyncio.get_running_loop().time() + seconds)

    def speed_up(self, epoch: int) -> BudgetEased | None:
        """Raise concurrency after a call that succeeded; returns the fact to record once it is fully restored."""
        self._usual_cooldown = 0.0
        if self.share is not None:
            self.share.answered()
        if not self.concurrency.increase(epoch) or not self._slowed:
            return None
        self._slowed = False
        return BudgetEased(model=self.name, concurrency=self.concurrency.current)

    def _opens_at(self, now: float, tokens: int) -> float:
        """When to check again whether a call may be dispatched: `now` if it may already."""
        if self._cooldown_until > now:
            return self._cooldown_until
        self._cooldown_until = 0.0
        return self.window.opens_at(now, tokens) if self.window.is_limited else now

    def _slot(self, now: float, tokens: int) -> Slot:
        self.in_flight += 1
        departure = self.window.record_departure(now, tokens) if self.window.is_limited else None
        return Slot(self, departure, self.concurrency.epoch)
