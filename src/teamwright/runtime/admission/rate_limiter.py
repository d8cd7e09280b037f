"""One limiter for each model of an engine, shared by all its runs, their branches and nested teams.

A slot is held by a call that is out and by nothing else. Time is the event loop's, so a loop with a clock of its own
needs no waiting. Nothing here may await while it holds a slot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence

from teamwright.agents.effect import Effect
from teamwright.budget.fair_queue import Rounds
from teamwright.budget.rate_window import CONCURRENCY, MINUTE, Departure, Width, Window
from teamwright.errors import AgentError, RateLimited
from teamwright.values.events.budget import BudgetEased, BudgetThrottled
from teamwright.values.limits import Pace
from teamwright.values.usage import Usage

LONGEST_PAUSE = 60.0
"""Seconds that a provider can keep everybody away from a model by one answer."""
WORTH_TELLING = 1.0
"""Seconds by which a pause must grow to be told again."""


class Limiters:
    """The limiters of one engine, each made when its model is first called."""

    def __init__(self) -> None:
        self._limiters: dict[str, Limiter] = {}

    def of(self, effect: Effect) -> Limiter:
        """The limiter of the model that a call goes to, told how fast that call says it may be called."""
        limiter = self._limiters.get(effect.model)
        if limiter is None:
            limiter = self._limiters[effect.model] = Limiter(effect.name)
        if effect.pace is not None and effect.pace is not limiter.pace:
            limiter.declare(effect.pace)
        return limiter


class Slot:
    """A call's place at a model; ends by the first of `returned`, `failed`, `give_back` and `close`."""

    __slots__ = ("_departure", "_epoch", "_limiter", "rest", "waited")

    def __init__(self, limiter: Limiter, departure: Departure | None, epoch: int) -> None:
        self._limiter: Limiter | None = limiter
        self._departure, self._epoch = departure, epoch
        self.waited = self.rest = 0.0
        """Seconds that it has waited, and for which the model rests once the call has failed."""

    def returned(self, usage: Usage) -> BudgetEased | None:
        """The call came back well."""
        limiter = self._end()
        if limiter is None:
            return None
        if self._departure is not None and usage.requests:
            limiter.window.settle(self._departure, usage.total_tokens)
            limiter.window.learn(usage.output_tokens)
        told = limiter.speed_up(self._epoch)
        limiter.serve()
        return told

    def failed(self, error: AgentError, wait: float | None, longest: float | None = None) -> BudgetThrottled | None:
        """The call failed, and is made again after `wait` seconds if at all; no wait is longer than `longest`."""
        limiter = self._end()
        if limiter is None:
            return None
        if self._departure is not None and not error.unknown_cost:
            limiter.window.settle(self._departure, 0)
        slow = isinstance(error, RateLimited)
        told = limiter.slow_down(error, self._epoch, wait, longest) if slow else None
        self.rest = limiter.rest
        limiter.serve()
        return told

    def give_back(self) -> None:
        """The call never left: it is as if the slot had not been taken."""
        if (limiter := self._end()) is not None:
            if self._departure is not None:
                limiter.window.withdraw(self._departure)
            limiter.serve()

    def close(self) -> None:
        """Nobody knows what came of the call: what it was estimated at stays counted."""
        if (limiter := self._end()) is not None:
            limiter.serve()

    def _end(self) -> Limiter | None:
        """Leave the model, once."""
        limiter, self._limiter = self._limiter, None
        if limiter is not None:
            limiter.out -= 1
        return limiter


class _Waiter:
    __slots__ = ("granted", "queued", "tokens")

    def __init__(self, tokens: int, granted: asyncio.Future[Slot]) -> None:
        self.tokens, self.granted, self.queued = tokens, granted, True


class Limiter:
    """How fast one model is called: requests and tokens a minute, and calls at once, which adapts to what it answers.

    Invariant: `out` never exceeds the width of the moment a slot is given, nobody gets one while the model rests, and
    whoever waits is served in rounds over runs and their branches.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.pace: Pace | None = None
        self.out = 0
        self.width = Width()
        self.window = Window()
        self._rests_until = self._usual_rest = 0.0
        self._told, self._told_at, self._slow = 0, -MINUTE, False
        self._waiting: Rounds[_Waiter] = Rounds()
        self._timer: asyncio.TimerHandle | None = None

    def declare(self, pace: Pace) -> None:
        """Hold what is declared; the tighter of both where another declaration is in use."""
        in_use = self.pace is not None and (self.out > 0 or bool(self._waiting))
        self.pace = self.pace.tightened(pace) if self.pace is not None and in_use else pace
        self.window.bound(self.pace)
        self.width.bound(self.pace.concurrency or CONCURRENCY)

    def take(self, prompt_bytes: int = 0, cap: int | None = None) -> Slot | None:
        """A slot at once, or nothing where the call would have to wait."""
        if self._waiting or self.out >= self.width.now:
            return None
        if not self._rests_until and not self.window.bounded:
            return self._slot(0.0, 0)
        now, tokens = asyncio.get_running_loop().time(), self.window.estimate(prompt_bytes, cap)
        return self._slot(now, tokens) if self._opens(now, tokens) <= now else None

    async def wait(self, branch: Sequence[Hashable], prompt_bytes: int = 0, cap: int | None = None) -> Slot:
        """A slot when it is this branch's turn; `branch` is the path of branches that the call is in."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        waiter = _Waiter(self.window.estimate(prompt_bytes, cap), loop.create_future())
        self._waiting.push(branch, waiter)
        self.serve()
        try:
            slot = await waiter.granted
        except asyncio.CancelledError:
            if waiter.queued:
                self._waiting.remove(branch, waiter)
                self.serve()
            elif not waiter.granted.cancelled():  # the slot was given in the same instant
                waiter.granted.result().give_back()
            raise
        slot.waited = loop.time() - began
        return slot

    def serve(self) -> None:
        """Give slots to whoever waits, as far as there are any, and see to it that the rest is looked at in time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._waiting and self.out < self.width.now:
            waiter = self._waiting.first()
            stopped = waiter.granted.done()
            if not stopped and (when := self._opens(now, waiter.tokens)) > now:
                self._timer = loop.call_at(when, self.serve)
                return
            self._waiting.pop().queued = False
            if not stopped:
                waiter.granted.set_result(self._slot(now, waiter.tokens))

    @property
    def rest(self) -> float:
        """Seconds until calls may leave again, as far as the provider is the reason."""
        return max(0.0, self._rests_until - asyncio.get_running_loop().time()) if self._rests_until else 0.0

    def slow_down(
        self, error: RateLimited, epoch: int, wait: float | None, longest: float | None = None
    ) -> BudgetThrottled | None:
        """The provider asked for it: rest as long as it says, and let fewer out; says what is worth telling.

        Without word how long, fewer calls are the answer; a call that was out alone has the model rest as long as it
        waits itself before it is made again, or as the one before did if it gives up. No rest is longer than the
        `longest` wait of the call's own policy.
        """
        now, before, alone = asyncio.get_running_loop().time(), self.width.now, not self.out
        if self.width.narrow(self.out + 1, epoch) and alone and wait is not None:
            self._usual_rest = wait
        most = LONGEST_PAUSE if longest is None else min(longest, LONGEST_PAUSE)
        rest = min(error.retry_after or (self._usual_rest if alone else 0.0), most)
        known = max(now, self._rests_until)
        self._rests_until = max(known, now + rest)
        narrower = self.width.now < before and (self.width.now < self._told or now >= self._told_at + MINUTE)
        if not narrower and self._rests_until - known < WORTH_TELLING:
            return None
        self._told, self._told_at, self._slow = self.width.now, now, True
        seconds = round(self._rests_until - now, 3)
        return BudgetThrottled(model=self.name, before=before, after=self.width.now, seconds=seconds)

    def speed_up(self, epoch: int) -> BudgetEased | None:
        """A call came back well; says when that has brought the model back to where it was."""
        self._usual_rest = 0.0
        if not self.width.widen(epoch) or not self._slow:
            return None
        self._slow = False
        return BudgetEased(model=self.name, concurrency=self.width.now)

    def _opens(self, now: float, tokens: int) -> float:
        """When to look again whether a call may leave; not after now if it may."""
        if self._rests_until > now:
            return self._rests_until
        self._rests_until = 0.0
        return self.window.opens(now, tokens) if self.window.bounded else now

    def _slot(self, now: float, tokens: int) -> Slot:
        self.out += 1
        departure = self.window.leave(now, tokens) if self.window.bounded else None
        return Slot(self, departure, self.width.epoch)
