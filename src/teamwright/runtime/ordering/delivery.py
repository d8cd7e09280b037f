"""Lets one thing reach a run's strategies at a time, in journal order.

Whatever comes from outside (a reply, an answer, a timer, a deadline) waits here until it is the next in the journal
*and* every branch is waiting for something. So each decision that depends on who came first falls the same way in a
live run and in its replay, which differ only in whether the order is being written or read.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from teamwright.errors import NonDeterminism
from teamwright.runtime.ordering.lane import Lane

QUIET_HOPS = 8
"""Turns of the event loop without a word from any branch that count as waiting: more than a lock or event takes."""


@dataclass(slots=True)
class _Waiter:
    future: asyncio.Future[None] | None
    lane: Lane | None
    act: Callable[[], None] | None = None


class OrderedDelivery:
    """The order in which a run goes on.

    `stuck` is told when every branch waits and none of them for what is recorded next; if it returns, that record is
    passed over. `caught_up` is told when the last recorded thing has been delivered.
    """

    def __init__(
        self, recorded: Iterable[str], stuck: Callable[[str, list[str]], None], caught_up: Callable[[], None]
    ) -> None:
        self._due = deque(recorded)
        self._passed_over: set[str] = set()
        self._replaying = len(self._due)
        self._stuck, self._when_caught_up = stuck, caught_up
        self._waiting: dict[str, _Waiter] = {}
        self._caught_up: list[asyncio.Future[None]] = []
        self._lanes = self._opened = self._parked = self._stamp = 0
        self._rejoining: list[tuple[Lane, asyncio.Future[None]]] = []
        self._watching = False
        self._unwinding = 0
        self._agents: set[str] = set()
        self._blocked: Counter[str] = Counter()
        self.when_idle: Callable[[], None] | None = None
        self.when_unwound: Callable[[], None] | None = None
        self.when_still: Callable[[], None] | None = None
        self.people_asked = 0

    def open_lane(self, around: Lane | None = None) -> Lane:
        """A new branch begins, at work."""
        self._lanes += 1
        self._opened += 1
        return Lane(self._opened, around, self.when_still)

    @property
    def opened(self) -> int:
        """How many branches have begun so far; the number of the last of them."""
        return self._opened

    def close_lane(self, lane: Lane) -> None:
        """A branch has ended; if it was abandoned, what it still does changes nothing here."""
        self.unpark(lane)
        lane.closed = True
        self._lanes -= 1
        self._settle()

    def park(self, lane: Lane) -> None:
        """The branch now waits for something from outside."""
        if lane.closed:
            return
        if not lane.parked:
            lane.parked = True
            self._parked += 1
        self._stamp += 1
        if self._due or self.people_asked:
            self._settle()

    def unpark(self, lane: Lane) -> None:
        """The branch is at work again."""
        if lane.parked:
            lane.parked = False
            self._parked -= 1
        self._stamp += 1

    def enter_agent(self, lane: Lane, scope: str) -> None:
        """An agent answers on this branch; what it does inside is its own affair, so the branch counts as waiting."""
        self._agents.add(scope)
        self.park(lane)

    def leave_agent(self, scope: str) -> None:
        """The agent has answered, or was stopped."""
        self._agents.discard(scope)

    @property
    def lone(self) -> bool:
        """Whether there is one branch only."""
        return self._lanes == 1

    @property
    def replaying(self) -> bool:
        """Whether recorded things are still to come."""
        return self._replaying > 0

    def announce(self, key: str) -> None:
        """Something new has just been recorded for this key."""
        self._due.append(key)

    def passes(self, lane: Lane, key: str) -> bool:
        """Whether this key goes on at once, since it is its turn and every other branch waits."""
        alone_at_work = self._parked + (not lane.parked) == self._lanes and not self._unwinding
        if not (alone_at_work and self._due and self._due[0] == key):
            return False
        self.unpark(lane)
        self._pop()
        return True

    async def arrive(self, lane: Lane, key: str, agent: str) -> None:
        """Wait until it is this key's turn; the branch is at work when this returns."""
        if self.passes(lane, key):
            return
        if key in self._passed_over:  # its turn is over, and nothing will ever deliver it
            self._passed_over.remove(key)
            self.unpark(lane)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[key] = _Waiter(future, lane)
        self._blocked[agent] += 1
        self.park(lane)
        try:
            await future
        except asyncio.CancelledError:
            self.unpark(lane)
            self.withdraw(key)
            raise
        finally:
            self._blocked[agent] -= 1

    def expect(self, key: str, act: Callable[[], None]) -> None:
        """Do something when it is this key's turn."""
        self._waiting[key] = _Waiter(None, None, act)
        self._settle()

    def unwind(self, lane: Lane) -> None:
        """What runs on this branch is being stopped: nothing else goes on until `unwound`."""
        self._unwinding += 1
        self.unpark(lane)

    def unwound(self) -> None:
        """It has stopped."""
        self._unwinding -= 1
        if not self._unwinding and self.when_unwound is not None:
            self.when_unwound()
        self._settle()

    @property
    def unwinding(self) -> bool:
        """Whether anything is being stopped at this moment."""
        return self._unwinding > 0

    def withdraw(self, key: str) -> None:
        """Nobody waits for this key any more; if something is on its way there, it is dropped."""
        self._waiting.pop(key, None)
        if key in self._due:
            index = self._due.index(key)
            del self._due[index]
            if index < self._replaying:
                self._count_replayed()
            self._settle()

    async def rejoin(self, lane: Lane) -> None:
        """Go on only when every other branch waits.

        How long it takes to stop work differs between a live run and its replay; what comes after must not.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rejoining.append((lane, future))
        self.park(lane)
        self._settle()
        try:
            await future
        except asyncio.CancelledError:
            self._rejoining = [one for one in self._rejoining if one[1] is not future]
            self.unpark(lane)
            raise

    async def hold(self, lane: Lane, ready: asyncio.Future[None], agent: str) -> None:
        """Wait for something inside the run; whoever brings it about unparks the branch in the same moment."""
        self._blocked[agent] += 1
        self.park(lane)
        try:
            await ready
        except asyncio.CancelledError:
            self.unpark(lane)
            raise
        finally:
            self._blocked[agent] -= 1

    async def caught_up(self, lane: Lane, agent: str) -> None:
        """Wait until everything that was recorded before has been delivered."""
        if not self._replaying:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._caught_up.append(future)
        self._blocked[agent] += 1
        self.park(lane)
        self._settle()
        try:
            await future
        finally:
            self._blocked[agent] -= 1

    def check_idle(self) -> None:
        """Something else than a branch has changed: see whether the run can only go on by a person's answer."""
        if self._lanes:
            self._watch()

    def _settle(self) -> None:
        """Deliver what is next if every branch waits; otherwise look again once the loop has gone quiet."""
        if self._rejoining and self._parked == self._lanes and not self._unwinding:
            self._let_rejoin()
        while self._due and self._parked == self._lanes and not self._unwinding:
            if self._deliver() or not self._judge():
                return
        self._watch()

    def _judge(self) -> bool:
        """Everyone waits, but not for what is next: pass over it if `stuck` allows, unless an agent is still busy."""
        if not self._replaying or any(not self._blocked[agent] for agent in self._agents):
            return False
        self._stuck(self._due[0], sorted(self._waiting))
        self._passed_over.add(self._due[0])
        self._pop()
        return True

    def _watch(self) -> None:
        """See to it that what is due is delivered even if no branch says anything more."""
        if (self._due or self._rejoining or self.people_asked) and not self._watching:
            self._watching = True
            asyncio.get_running_loop().call_soon(self._look, self._stamp, QUIET_HOPS)

    def _look(self, stamp: int, hops: int) -> None:
        """A branch may wait for another one by its own means (a lock, say): then quiet counts as waiting."""
        loop = asyncio.get_running_loop()
        if not self._due and not self._rejoining and not self.people_asked:
            self._watching = False
        elif stamp != self._stamp:
            loop.call_soon(self._look, self._stamp, QUIET_HOPS)
        elif hops:
            loop.call_soon(self._look, stamp, hops - 1)
        else:
            self._watching = False
            if not self._unwinding:
                self._go_on()

    def _go_on(self) -> None:
        """Everything is quiet: let whatever is first happen."""
        if self._rejoining:
            self._let_rejoin()
        elif self._due:
            with suppress(NonDeterminism):  # whoever objects has stopped the run already, and is told by it
                while self._due and not self._deliver() and self._judge():
                    pass
        elif self.when_idle is not None:
            self.when_idle()

    def _let_rejoin(self) -> None:
        lane, future = first = min(self._rejoining, key=lambda one: one[0].number)
        self._rejoining.remove(first)
        self.unpark(lane)
        if not future.done():
            future.set_result(None)
        self._watch()

    def _deliver(self) -> bool:
        waiter = self._waiting.pop(self._due[0], None)
        if waiter is None:
            return False
        self._pop()
        if waiter.act is not None:
            waiter.act()
        elif waiter.future is not None and not waiter.future.done():
            if waiter.lane is not None:
                self.unpark(waiter.lane)
            waiter.future.set_result(None)
        self._watch()
        return True

    def _pop(self) -> None:
        self._due.popleft()
        if self._replaying:
            self._count_replayed()

    def _count_replayed(self) -> None:
        self._replaying -= 1
        if not self._replaying:
            self._when_caught_up()
            waiting, self._caught_up = self._caught_up, []
            for future in waiting:
                if not future.done():
                    future.set_result(None)
