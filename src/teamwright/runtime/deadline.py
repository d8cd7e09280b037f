"""A scope's time limit. That it ran out is recorded first and acted on in journal order, as is all from outside."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from teamwright.runtime.replay import EXPIRED
from teamwright.values.events import ScopeExpired

if TYPE_CHECKING:
    from teamwright.runtime.context import RunContext


class Deadline:
    """Stops what runs inside when the seconds are used up, and then says so.

    `since` is when the scope began, for one that an earlier driver began: time without a driver does not count, and
    neither does time in which everything inside waits for people.
    """

    __slots__ = (
        "_around", "_cancel", "_context", "_key", "_left", "_seconds", "_since", "_stopped_at", "_timer", "_unwinding",
        "expired",
    )  # fmt: skip

    def __init__(self, context: RunContext, seconds: float, since: float | None = None) -> None:
        self.expired = False
        self._context, self._seconds, self._since = context, seconds, since
        self._key = context.path + EXPIRED
        self._cancel = anyio.CancelScope()
        self._timer: asyncio.TimerHandle | None = None
        self._left = 0.0
        self._stopped_at: float | None = None
        self._unwinding = False
        self._around, context.deadline = context.deadline, self

    @property
    def remaining(self) -> float:
        """Seconds that are left here and in every scope around that has a deadline."""
        own = self._left if self._timer is None else self._timer.when() - asyncio.get_running_loop().time()
        own = max(0.0, own)
        return own if self._around is None else min(own, self._around.remaining)

    def __enter__(self) -> Self:
        run = self._context.run
        self._cancel.__enter__()
        if self._context.path in run.past.expired:
            run.turnstile.expect(self._key, self._stop)
        else:
            used = run.past.used_by(self._context.path, self._since) if self._since is not None else 0.0
            self._left = max(0.0, self._seconds - used)
            self._start()
            self._context.lane.clocks = (*self._context.lane.clocks, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._let_go()
        if self._unwinding:
            self._context.run.turnstile.unwound()
        else:
            self._context.run.turnstile.withdraw(self._key)
        swallowed = bool(self._cancel.__exit__(kind, error, trace))
        self.expired = swallowed and self._cancel.cancelled_caught
        return swallowed

    def stop(self) -> None:
        """Everything inside waits for people: the time stands still."""
        if self._timer is not None:
            self._timer.cancel()
            self._left = max(0.0, self._timer.when() - asyncio.get_running_loop().time())
            self._timer, self._stopped_at = None, self._context.run.wall()

    def go_on(self) -> None:
        """Something inside can go on, and so does the time."""
        if self._stopped_at is not None:
            self._context.run.waited(self._context.path, self._stopped_at)
            self._stopped_at = None
            self._start()

    def _start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._left, self._ring)

    def _let_go(self) -> None:
        lane = self._context.lane
        lane.clocks = tuple(clock for clock in lane.clocks if clock is not self)
        if self._timer is not None:
            self._timer.cancel()
        if self._stopped_at is not None:
            self._context.run.waited(self._context.path, self._stopped_at)

    def _ring(self) -> None:
        self._timer = None
        run = self._context.run
        run.recorder.add(self._context.path, "", ScopeExpired(seconds=self._seconds))
        run.turnstile.announce(self._key)
        run.turnstile.expect(self._key, self._stop)

    def _stop(self) -> None:
        self._unwinding = self._context.stopping = True
        self._context.run.turnstile.unwind(self._context.lane)
        self._cancel.cancel()
