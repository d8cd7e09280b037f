"""The time of a scope: a clock and random numbers that a resumed run repeats, durable waits, and deadlines.

A wait is recorded when it is set and when it fires, so that a crash does not restart it. The expiry of a deadline is
recorded first and acted on in journal order, like everything from outside.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import blake2b
from math import isfinite
from types import TracebackType
from typing import Any, Self

import anyio

from teamwright.errors import UsageError
from teamwright.history.run_record import EXPIRED
from teamwright.runtime.recorder import remaining_wait
from teamwright.runtime.scope import Scope
from teamwright.runtime.tasks import Cancellation
from teamwright.values.events.run import ScopeExpired, TimerFired, TimerSet
from teamwright.values.run_keys import join_key


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


async def sleep_durably(scope: Scope, name: str, seconds: float) -> None:
    """Wait, then continue in journal order; `name` is claimed here."""
    run = scope.run
    if scope.is_closed:
        await run.park_until_cancelled()
    place = scope.claim(name)
    full = join_key(scope.path, place)
    record = run.record
    if full in record.fired_timers:
        await run.delivery.wait_turn(scope.lane, full, scope.agent_scope)
        run.advance_to(record.deliveries.arrivals[full])
        return
    if full not in record.timers:
        run.recorder.add(scope.path, place, TimerSet(seconds=seconds))
    left = remaining_wait(record.timers[full], run.wall(), seconds) if full in record.timers else seconds
    await _wait_outside(scope, left)
    event = run.recorder.add(scope.path, place, TimerFired())
    run.delivery.enqueue(full)
    await run.delivery.wait_turn(scope.lane, full, scope.agent_scope)
    run.advance_to(event)


async def _wait_outside(scope: Scope, seconds: float) -> None:
    """Let time pass while the branch is parked and the run counts as busy."""
    run = scope.run
    if scope.agent_scope:
        await run.delivery.wait_caught_up(scope.lane, scope.agent_scope)
    run.busy_agents += 1
    run.delivery.park(scope.lane)
    try:
        await run.recorder.flush()
        await anyio.sleep(max(0.0, seconds))
    finally:
        run.busy_agents -= 1


class Deadline:
    """Stops what runs inside the block when its seconds are used up; `expired` then says so.

    `stop` stops it; by default the task that entered the block is cancelled, and the block swallows that cancellation.
    `since` is when an earlier driver opened the scope: time without a driver does not count, and neither does time in
    which everything inside waits for people; with `working`, for people or providers.
    """

    __slots__ = (
        "_abandoned",
        "_cancel",
        "_cancel_requests",
        "_cancellation",
        "_key",
        "_outer",
        "_paused_at",
        "_remaining",
        "_scope",
        "_seconds",
        "_since",
        "_timer",
        "_unwinding",
        "_working",
        "expired",
    )  # fmt: skip

    def __init__(
        self,
        scope: Scope,
        seconds: float,
        since: float | None = None,
        stop: Callable[[], None] | None = None,
        *,
        working: bool = False,
    ) -> None:
        self.expired, self._working = False, working
        self._scope, self._seconds, self._since = scope, seconds, since
        self._key = scope.path + EXPIRED
        task = asyncio.current_task()
        assert task is not None
        self._cancel = stop or partial(self._cancel_task, task)
        self._cancellation: Cancellation | None = None
        self._cancel_requests = task.cancelling()
        self._timer: asyncio.TimerHandle | None = None
        self._remaining = 0.0
        self._paused_at: float | None = None
        self._unwinding = self._abandoned = False
        self._outer, scope.deadline = scope.deadline, self

    @property
    def remaining(self) -> float:
        """Seconds left until the nearest deadline of this scope and its parents."""
        own = self._remaining if self._timer is None else self._timer.when() - asyncio.get_running_loop().time()
        own = max(0.0, own)
        return own if self._outer is None else min(own, self._outer.remaining)

    def is_overdue(self, seconds: float) -> bool:
        """Whether the deadline passed more than `seconds` ago without the event loop acting on it. Thread-safe."""
        timer = self._timer
        return timer is not None and time.monotonic() - timer.when() > seconds

    @property
    def is_outermost(self) -> bool:
        """Whether this is the deadline of the run's own team."""
        return self._scope.is_outermost

    @property
    def is_of_own_team(self) -> bool:
        """Whether this is the timeout that the strategy of the run's own team has set itself."""
        around = self._scope.parent
        return self._working and around is not None and around.is_outermost

    def extend_to(self, seconds: float) -> None:
        """Give the scope at least this many seconds in all."""
        self.extend(max(seconds, self._seconds))

    def extend(self, seconds: float) -> None:
        """Give the scope this many seconds in all; one whose time is up has ended."""
        more, self._seconds = seconds - self._seconds, seconds
        if self._timer is not None:
            self._remaining = max(0.0, self._timer.when() + more - asyncio.get_running_loop().time())
            self._timer.cancel()
            self._start()
        elif self._paused_at is not None:
            self._remaining += more

    @property
    def key(self) -> str:
        """The key of the deadline, inside its scope."""
        return self._key

    def abandon(self) -> None:
        """Stop the timer, because the scope around it was abandoned; nothing waits for it any more."""
        self._end()
        self._abandoned = True

    def __enter__(self) -> Self:
        run = self._scope.run
        run.open_resources[self] = None
        if self._scope.path in run.record.expired_scopes:
            run.delivery.call_in_turn(self._key, self._stop)
        else:
            used = run.record.scope_seconds(self._scope.path, self._since) if self._since is not None else 0.0
            self._remaining = max(0.0, self._seconds - used)
            self._start()
            lane = self._scope.lane
            if self._working:
                lane.work_timers = (*lane.work_timers, self)
            else:
                lane.timers = (*lane.timers, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self._abandoned:
            self._scope.run.open_resources.pop(self, None)
            self._end()
        if self._cancellation is None:
            return False
        self._cancellation.withdraw()
        self.expired = isinstance(error, asyncio.CancelledError) and not self._is_stopped_otherwise
        return self.expired

    def _end(self) -> None:
        self._clear_timer()
        if self._unwinding:
            self._scope.run.delivery.end_unwind()
        else:
            self._scope.run.delivery.withdraw(self._key)

    @property
    def _is_stopped_otherwise(self) -> bool:
        """Whether the task is also being cancelled for another reason."""
        task, around = asyncio.current_task(), self._scope.parent
        assert task is not None
        assert around is not None
        return self._scope.run.interrupted or around.is_being_stopped or task.cancelling() > self._cancel_requests

    def pause_timer(self) -> None:
        """Pause, because everything inside waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._remaining = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
            self._timer, self._paused_at = None, self._scope.run.wall()

    def resume_timer(self) -> None:
        """Resume, because something inside can continue."""
        if self._paused_at is not None:
            self._scope.run.record_wait(self._scope.path, self._paused_at)
            self._paused_at = None
            self._start()

    def _start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._remaining, self._expire)

    def _clear_timer(self) -> None:
        lane = self._scope.lane
        lane.timers = tuple(timer for timer in lane.timers if timer is not self)
        lane.work_timers = tuple(timer for timer in lane.work_timers if timer is not self)
        if self._timer is not None:
            self._timer.cancel()
        if self._paused_at is not None:
            self._scope.run.record_wait(self._scope.path, self._paused_at)

    def _expire(self) -> None:
        self._timer = None
        run = self._scope.run
        run.recorder.add(self._scope.path, "", ScopeExpired(seconds=self._seconds))
        run.delivery.enqueue(self._key)
        run.delivery.call_in_turn(self._key, self._stop)

    def _stop(self) -> None:
        self._unwinding = self._scope.stopping = True
        self._scope.run.delivery.begin_unwind(self._scope.lane)
        self._cancel()

    def _cancel_task(self, task: asyncio.Task[Any]) -> None:
        self._cancellation = Cancellation(task, math.inf)
