"""Delivers what arrives from outside to a run's strategies one item at a time, in journal order.

A reply, an answer, a timer or a deadline waits here until it is the next in the journal *and* every branch is waiting
for something. So every decision that depends on who came first falls the same way in a live run and in its replay,
which differ only in whether the order is being written or read. A `Lane` knows whether its branch waits for people
alone, which pauses the timers of its scopes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from msgspec import Struct

from teamwright.errors import NonDeterminism


class PausableTimer(Protocol):
    """A timer of a scope, which pauses while the scope waits for people; a timer of work, also while it is idle."""

    def pause_timer(self) -> None:
        """Pause, because nothing in the scope can continue by itself."""
        ...

    def resume_timer(self) -> None:
        """Resume, because something in the scope can continue."""
        ...


class Lane:
    """The scheduler's view of one branch: working, or parked until something arrives from outside.

    `parent` is the branch that started it, and `open_children` counts the branches that it has started itself.
    `on_change` is called when any branch becomes blocked or unblocked.
    """

    __slots__ = (
        "behind_blocked", "blocked_children", "closed", "idle_children", "is_blocked", "is_idle", "number", "on_change",
        "open_children", "outside_waits", "parent", "parked", "provider_waits", "timers", "waits_for_children",
        "work_timers",
    )  # fmt: skip

    def __init__(self, number: int, parent: Lane | None = None, on_change: Callable[[], None] | None = None) -> None:
        self.number, self.parent, self.on_change = number, parent, on_change
        self.parked = self.waits_for_children = self.is_blocked = self.behind_blocked = self.closed = False
        self.is_idle = False
        self.outside_waits = self.provider_waits = 0
        self.open_children = self.blocked_children = self.idle_children = 0
        self.timers: Sequence[PausableTimer] = ()
        self.work_timers: Sequence[PausableTimer] = ()


def update_timers(lane: Lane) -> None:
    """Pause or resume the timers of a branch that has changed, and those of its parents."""
    current: Lane | None = lane
    was_blocked = lane.is_blocked
    while current is not None:
        waits = current.waits_for_children and current.open_children > 0
        blocked = current.outside_waits > 0 or current.behind_blocked
        idle = blocked or current.provider_waits > 0 or (waits and current.open_children == current.idle_children)
        blocked = blocked or (waits and current.open_children == current.blocked_children)
        by_blocked, by_idle = blocked - current.is_blocked, idle - current.is_idle
        if not (by_blocked or by_idle):
            break
        current.is_blocked, current.is_idle = blocked, idle
        _set_paused(current.timers if by_blocked else (), paused=blocked)
        _set_paused(current.work_timers if by_idle else (), paused=idle)
        current = current.parent
        if current is not None:
            current.blocked_children += by_blocked
            current.idle_children += by_idle
    if lane.is_blocked != was_blocked and lane.on_change is not None:
        lane.on_change()


def _set_paused(timers: Sequence[PausableTimer], *, paused: bool) -> None:
    for timer in timers:
        timer.pause_timer() if paused else timer.resume_timer()


@contextmanager
def waiting_for_provider(lane: Lane) -> Generator[None]:
    """Note that a call of this branch waits for its provider inside the block."""
    lane.provider_waits += 1
    update_timers(lane)
    try:
        yield
    finally:
        lane.provider_waits -= 1
        update_timers(lane)


QUIET_ITERATIONS = 8
"""Event-loop iterations without any change after which a branch counts as waiting: more than a lock or event needs."""


class _PendingDelivery(Struct, eq=False):
    """What to wake or call when it is the turn of a key."""

    future: asyncio.Future[None] | None
    lane: Lane | None
    callback: Callable[[], None] | None = None


class OrderedDelivery:
    """The order in which a run's branches continue.

    `on_stuck` is called when every branch waits and none waits for the item recorded next; if it returns, that item is
    skipped. `on_caught_up` is called when the last recorded item has been delivered.
    """

    def __init__(
        self, recorded: Iterable[str], on_stuck: Callable[[str, list[str]], None], on_caught_up: Callable[[], None]
    ) -> None:
        self._due = deque(recorded)
        self._skipped: set[str] = set()
        self._replaying = len(self._due)
        self._on_stuck, self._on_caught_up = on_stuck, on_caught_up
        self._waiting: dict[str, _PendingDelivery] = {}
        self._waiting_for_replay: list[asyncio.Future[None]] = []
        self.open_lanes = 0
        """How many branches the run has now."""
        self.lanes_opened = 0
        """How many lanes have been opened so far, which is the number of the last one."""
        self._parked_lanes = self._changes = 0
        self._rejoining: list[tuple[Lane, asyncio.Future[None]]] = []
        self._check_scheduled = False
        self._unwinding = 0
        self._agents: set[str] = set()
        self._waiting_in_agent: Counter[str] = Counter()
        self.when_idle: Callable[[], None] | None = None
        self.when_unwound: Callable[[], None] | None = None
        self.when_blocked: Callable[[], None] | None = None
        self.outside_waits = 0

    def open_lane(self, parent: Lane | None = None) -> Lane:
        """Open the lane of a new branch, which is working."""
        self.open_lanes += 1
        self.lanes_opened += 1
        return Lane(self.lanes_opened, parent, self._on_blocked)

    def _on_blocked(self) -> None:
        """Act on a branch that is now blocked, or no longer."""
        if self.when_blocked is not None:
            self.when_blocked()

    def close_lane(self, lane: Lane) -> None:
        """Close the lane of a branch that has ended or was abandoned; it changes nothing here any more."""
        self.unpark(lane)
        lane.closed = True
        self.open_lanes -= 1
        self._deliver_due()

    def park(self, lane: Lane) -> None:
        """Mark the branch as waiting for something from outside."""
        if lane.closed:
            return
        if not lane.parked:
            lane.parked = True
            self._parked_lanes += 1
        self._changes += 1
        if self._due or self._rejoining or self.outside_waits:
            self._deliver_due()

    def unpark(self, lane: Lane) -> None:
        """Mark the branch as working again."""
        if lane.parked:
            lane.parked = False
            self._parked_lanes -= 1
        self._changes += 1

    def enter_agent(self, lane: Lane, scope: str) -> None:
        """Park the branch while an agent answers on it; the order of what the agent does inside is not recorded."""
        self._agents.add(scope)
        if not (lane.parked or lane.closed or self._due or self.outside_waits):  # as in most turns
            lane.parked = True
            self._parked_lanes += 1
            self._changes += 1
        else:
            self.park(lane)

    def leave_agent(self, scope: str) -> None:
        """Record that the agent has answered or was stopped."""
        self._agents.discard(scope)

    @property
    def is_replaying(self) -> bool:
        """Whether recorded items are still to be delivered."""
        return self._replaying > 0

    @property
    def is_clear(self) -> bool:
        """Whether nothing waits to be delivered."""
        return not self._due

    def enqueue(self, key: str) -> None:
        """Append the key of something that was just recorded."""
        self._due.append(key)

    def try_deliver(self, lane: Lane, key: str) -> bool:
        """Deliver this key at once if it is its turn and every other branch waits; returns whether it did."""
        if not (self._due and self._due[0] == key) or self._unwinding or self._rejoining:
            return False
        if self._parked_lanes + (not lane.parked) != self.open_lanes:
            return False
        if lane.parked:
            lane.parked = False
            self._parked_lanes -= 1
        self._changes += 1
        self._due.popleft()
        if self._replaying:
            self._count_replayed()
        return True

    def try_deliver_new(self, lane: Lane, key: str) -> bool:
        """Deliver the key of something that was just recorded at once if possible, or enqueue it; returns which."""
        if self._due or self._unwinding or self._rejoining or self._parked_lanes + (not lane.parked) != self.open_lanes:
            self._due.append(key)
            return False
        if lane.parked:
            lane.parked = False
            self._parked_lanes -= 1
        self._changes += 1
        return True

    async def wait_turn(self, lane: Lane, key: str, agent: str) -> None:
        """Wait until it is this key's turn; the branch is working when this returns."""
        if self.try_deliver(lane, key):
            return
        if key in self._skipped:  # its turn has passed, and nothing would ever deliver it
            self._skipped.remove(key)
            self.unpark(lane)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[key] = _PendingDelivery(future, lane)
        self._waiting_in_agent[agent] += 1
        self.park(lane)
        try:
            await future
        except asyncio.CancelledError:
            self.unpark(lane)
            self.withdraw(key)
            raise
        finally:
            self._waiting_in_agent[agent] -= 1

    def call_in_turn(self, key: str, callback: Callable[[], None]) -> None:
        """Call `callback` when it is this key's turn."""
        self._waiting[key] = _PendingDelivery(None, None, callback)
        self._deliver_due()

    def begin_unwind(self, lane: Lane) -> None:
        """Hold all deliveries back while the work on this branch is being stopped, until `end_unwind`."""
        self._unwinding += 1
        self.unpark(lane)

    def end_unwind(self) -> None:
        """Continue deliveries, because the work has stopped."""
        self._unwinding -= 1
        if not self._unwinding and self.when_unwound is not None:
            self.when_unwound()
        self._deliver_due()

    @property
    def is_unwinding(self) -> bool:
        """Whether anything is being stopped now."""
        return self._unwinding > 0

    def withdraw(self, key: str) -> None:
        """Stop waiting for this key; if it is due, it is dropped."""
        self._waiting.pop(key, None)
        if key in self._due:
            index = self._due.index(key)
            del self._due[index]
            if index < self._replaying:
                self._count_replayed()
            self._deliver_due()

    async def rejoin(self, lane: Lane) -> None:
        """Continue only when every other branch waits.

        How long it takes to stop work differs between a live run and its replay; what comes after must not.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rejoining.append((lane, future))
        self.park(lane)
        self._deliver_due()
        try:
            await future
        except asyncio.CancelledError:
            self._rejoining = [one for one in self._rejoining if one[1] is not future]
            self.unpark(lane)
            raise

    async def wait_for(self, lane: Lane, ready: asyncio.Future[None], agent: str) -> None:
        """Wait for something inside the run; whatever completes `ready` must unpark the branch in the same step."""
        self._waiting_in_agent[agent] += 1
        self.park(lane)
        try:
            await ready
        except asyncio.CancelledError:
            self.unpark(lane)
            raise
        finally:
            self._waiting_in_agent[agent] -= 1

    async def wait_caught_up(self, lane: Lane, agent: str) -> None:
        """Wait until everything recorded by earlier drivers has been delivered."""
        if not self._replaying:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting_for_replay.append(future)
        self._waiting_in_agent[agent] += 1
        self.park(lane)
        self._deliver_due()
        try:
            await future
        finally:
            self._waiting_in_agent[agent] -= 1

    def check_idle(self) -> None:
        """Schedule a check whether only an answer can unblock the run, after a change outside its branches."""
        if self.open_lanes:
            self._schedule_check()

    def _deliver_due(self) -> None:
        """Deliver what is next if every branch waits; otherwise check again once the event loop is quiet."""
        if self._rejoining and self._parked_lanes == self.open_lanes and not self._unwinding:
            self._release_rejoining()
        while self._due and self._parked_lanes == self.open_lanes and not self._unwinding:
            if self._deliver() or not self._skip_unclaimed():
                return
        self._schedule_check()

    def _skip_unclaimed(self) -> bool:
        """Skip the next recorded item, which no branch waits for, unless an agent is busy; returns whether it did."""
        if not self._replaying or any(not self._waiting_in_agent[agent] for agent in self._agents):
            return False
        self._on_stuck(self._due[0], sorted(self._waiting))
        self._skipped.add(self._due[0])
        self._pop()
        return True

    def _schedule_check(self) -> None:
        """Make sure that what is due is delivered even if no branch parks or unparks any more."""
        if (self._due or self._rejoining or self.outside_waits) and not self._check_scheduled:
            self._check_scheduled = True
            asyncio.get_running_loop().call_soon(self._check_quiet, self._changes, QUIET_ITERATIONS)

    def _check_quiet(self, changes: int, iterations: int) -> None:
        """Proceed once no branch has changed for a while: a branch may wait for another by a lock of its own."""
        loop = asyncio.get_running_loop()
        if not self._due and not self._rejoining and not self.outside_waits:
            self._check_scheduled = False
        elif changes != self._changes:
            loop.call_soon(self._check_quiet, self._changes, QUIET_ITERATIONS)
        elif iterations:
            loop.call_soon(self._check_quiet, changes, iterations - 1)
        else:
            self._check_scheduled = False
            if not self._unwinding:
                self._proceed()

    def _proceed(self) -> None:
        """Let the first of what is pending happen, because everything is quiet."""
        if self._rejoining:
            self._release_rejoining()
        elif self._due:
            with suppress(NonDeterminism):  # the run has been stopped already and reports the error
                while self._due and not self._deliver() and self._skip_unclaimed():
                    pass
        elif self.when_idle is not None:
            self.when_idle()

    def _release_rejoining(self) -> None:
        lane, future = first = min(self._rejoining, key=lambda one: one[0].number)
        self._rejoining.remove(first)
        self.unpark(lane)
        if not future.done():
            future.set_result(None)
        self._schedule_check()

    def _deliver(self) -> bool:
        waiter = self._waiting.pop(self._due[0], None)
        if waiter is None:
            return False
        self._pop()
        if waiter.callback is not None:
            waiter.callback()
        elif waiter.future is not None and not waiter.future.done():
            if waiter.lane is not None:
                self.unpark(waiter.lane)
            waiter.future.set_result(None)
        self._schedule_check()
        return True

    def _pop(self) -> None:
        self._due.popleft()
        if self._replaying:
            self._count_replayed()

    def _count_replayed(self) -> None:
        self._replaying -= 1
        if not self._replaying:
            self._on_caught_up()
            waiting, self._waiting_for_replay = self._waiting_for_replay, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
