"""Named concurrent branches, the only concurrency in a run; they finish in an order that a resumed run repeats."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from teamwright.agents.agent import Context
from teamwright.runtime.ordered_delivery import update_timers
from teamwright.runtime.scope import Scope
from teamwright.runtime.tasks import Cancellation, abandon_task
from teamwright.values.run_keys import SEPARATOR, join_key

T = TypeVar("T")


class RunBranch(Generic[T]):
    """One branch, and its result once it has finished."""

    __slots__ = (
        "_context",
        "_error",
        "_value",
        "_work",
        "abandoned",
        "cancelled",
        "cancelled_alone",
        "done",
        "has_begun",
        "is_seen",
        "name",
        "scope",
        "task",
    )  # fmt: skip

    def __init__(self, name: str, scope: Scope, context: Context, work: Callable[[Context], Awaitable[T]]) -> None:
        self.name, self.scope, self._context = name, scope, context
        self.has_begun = self.done = self.cancelled = self.is_seen = self.abandoned = False
        self.cancelled_alone = False
        """Whether it was cancelled without the others, so that it counts as finished when it has ended."""
        self.task: asyncio.Task[None] | None = None
        self._work = work
        self._value: T | None = None
        self._error: BaseException | None = None

    def result(self) -> T:
        """Return what the branch returned; raises what it raised."""
        self.is_seen = True
        if self._error is not None:
            raise self._error
        if not self.done or self.cancelled:
            raise LookupError(f"the branch {self.name!r} has no result")
        return cast("T", self._value)

    async def run(self, end: Callable[[RunBranch[T]], None]) -> None:
        """Do the work, keep its result or error, and call `end`."""
        self.has_begun = True
        try:
            if not self.cancelled:
                self._value = await self._work(self._context)
                self.done = True
        except asyncio.CancelledError as error:
            if self.scope.is_cancelled_from_outside():
                raise
            self._set_error(RuntimeError(f"the branch {self.name!r} was cancelled from inside"), error)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - raised from `result`
            self._set_error(error)
        finally:
            if not self.abandoned:
                end(self)

    def _set_error(self, error: BaseException, cause: BaseException | None = None) -> None:
        self._error, self.done = error, True
        if cause is not None:
            error.__cause__ = cause

    def abandon(self) -> None:
        """Cancel the work and stop waiting for it, because the scope around it was abandoned."""
        if self.task is not None:
            if not self.cancelled:
                Cancellation(self.task, self.scope.run.grace)
            abandon_task(self.task)
        self.abandoned = self.cancelled = self.scope.stopping = True

    def stop(self, abandoned: Callable[[], None]) -> None:
        """Cancel the work until it ends or is abandoned; work that has not begun sees `cancelled` and never begins."""
        if self.has_begun and self.task is not None:
            Cancellation(self.task, self.scope.run.grace, abandoned)

    @property
    def error(self) -> BaseException | None:
        """What the branch raised, unless its result was retrieved."""
        return None if self.is_seen else self._error


class RunBranches:
    """The branches of one scope. Leaving the block waits for all of them; leaving it by an error stops them."""

    def __init__(
        self,
        scope: Scope,
        limit: int,
        until: Callable[[], bool] | None,
        new_context: Callable[[Scope], Context],
    ) -> None:
        if limit < 1:
            raise ValueError(f"a limit of {limit} branches would never run anything")
        self._scope, self._limit, self._until, self._new_context = scope, limit, until, new_context
        self._queue: deque[RunBranch[object]] = deque()
        self._running: dict[RunBranch[object], None] = {}  # in the order of their start, in which they are stopped
        self._finished: deque[RunBranch[object]] = deque()
        self._all: list[RunBranch[object]] = []
        self._wake: asyncio.Future[None] | None = None
        self._stopped = self._waits_for_all = self._abandoned = False

    @property
    def key(self) -> str:
        """A key inside the scope that started the branches."""
        return self._scope.path + SEPARATOR

    def abandon(self) -> None:
        """End the branches as far as the run is concerned, because the scope that started them was abandoned."""
        delivery = self._scope.run.delivery
        self._abandoned = True
        running, self._running = self._running, {}
        self._drop_queue()
        for branch in running:
            if branch.cancelled:
                delivery.end_unwind()
            self._scope.lane.open_children -= 1
            self._count(-1)
            branch.abandon()
            delivery.close_lane(branch.scope.lane)
        if self._wake is not None:
            self._scope.lane.waits_for_children = False
            self._count_busy(1)
            if not self._wake.done():
                self._wake.set_result(None)
        self._update_timers()

    def start(self, name: str, work: Callable[[Context], Awaitable[T]]) -> RunBranch[T]:
        """Start a branch, or queue it until there is room."""
        if self._abandoned:
            raise asyncio.CancelledError("abandoned")
        parent = self._scope
        lane = parent.run.delivery.open_lane(parent.lane)
        scope = parent.open_part(join_key(parent.path, parent.claim(name)), lane, parent.account)
        scope.is_placed = parent.places_branches
        branch = RunBranch(name, scope, self._new_context(scope), work)
        of_any = cast("RunBranch[object]", branch)
        self._all.append(of_any)
        if self._has_room:
            self._launch(of_any)
        else:
            parent.run.delivery.park(lane)
            self._queue.append(of_any)
            self._count(0, queued=1)
        return branch

    async def finished(self) -> AsyncGenerator[RunBranch[object]]:
        while self._finished or self._running or self._queue:
            if not self._finished:
                await self._wait()
                continue
            if (branch := self._finished.popleft()).cancelled_alone:
                await self._rejoin()
            yield branch
        await self._rejoin()

    def cancel(self, name: str | None = None) -> None:
        """Stop every branch that has not finished; `finished` yields none of them.

        With a name, stop that branch alone, which `finished` yields as cancelled once it has ended.
        """
        if name is not None:
            self._cancel_one(name)
            return
        self._stopped = self._stopped or bool(self._running)
        delivery = self._scope.run.delivery
        self._drop_queue()
        for branch in self._running:
            if branch.cancelled:
                continue
            branch.cancelled = branch.scope.stopping = True
            delivery.begin_unwind(branch.scope.lane)
            branch.stop(partial(self._abandon, branch))

    def _cancel_one(self, name: str) -> None:
        delivery = self._scope.run.delivery
        for branch in [one for one in (*self._running, *self._queue) if one.name == name and not one.cancelled]:
            branch.cancelled = branch.cancelled_alone = branch.is_seen = True
            branch.scope.stopping = True
            if branch in self._running:
                self._stopped = True
                delivery.begin_unwind(branch.scope.lane)
                branch.stop(partial(self._abandon, branch))
            else:
                self._queue.remove(branch)
                self._count(0, queued=-1)
                delivery.close_lane(branch.scope.lane)
                self._finished.append(branch)
                self._wake_up()

    def _drop_queue(self) -> None:
        while self._queue:
            branch = self._queue.popleft()
            self._count(0, queued=-1)
            branch.cancelled = True
            self._scope.run.delivery.close_lane(branch.scope.lane)

    def _abandon(self, branch: RunBranch[object]) -> None:
        """Continue without a branch that does not end."""
        if branch.abandoned:  # together with a scope around it
            return
        branch.abandoned = True
        branch.scope.run.abandon(branch.scope.path)
        self._end(branch)

    async def __aenter__(self) -> Self:
        run = self._scope.run
        if run.abandoned and self._scope.is_closed:
            await run.park_until_cancelled()
        run.open_resources[self] = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.cancel()
        interruption = await self._wait_for_all()
        self._scope.run.open_resources.pop(self, None)
        if interruption is not None:
            raise interruption
        if error is not None:
            return
        await self._rejoin()
        unseen = next((branch.error for branch in self._all if branch.error is not None), None)
        if unseen is not None:
            raise unseen

    async def _wait_for_all(self) -> asyncio.CancelledError | None:
        """Wait for every branch; an interruption stops them and is returned once they have ended."""
        interruption: asyncio.CancelledError | None = None
        while self._running or self._queue:
            try:
                await self._wait(for_all=True)
            except asyncio.CancelledError as error:
                if interruption is None:
                    self.cancel()
                interruption = error
        return interruption

    @property
    def _has_room(self) -> bool:
        ladder = self._scope.degradation
        return len(self._running) < (self._limit if ladder is None else ladder.cutback.width(self._limit))

    def _launch(self, branch: RunBranch[object]) -> None:
        scope = self._scope
        self._running[branch] = None
        scope.lane.open_children += 1
        self._count(1)
        scope.run.delivery.unpark(branch.scope.lane)
        branch.task = asyncio.get_running_loop().create_task(branch.run(self._end), name=branch.scope.path)

    def _end(self, branch: RunBranch[object]) -> None:
        """Start the next branch and wake the waiting scope, before anything else can happen."""
        delivery = self._scope.run.delivery
        self._running.pop(branch, None)
        self._scope.lane.open_children -= 1
        self._count(-1)
        if branch.cancelled_alone or (branch.done and not branch.cancelled):
            self._finished.append(branch)
        if (error := branch.error) is not None and error is self._scope.run.error:
            branch.is_seen = True
        if self._until is not None and self._until():
            self.cancel()
        while self._queue and self._has_room:
            self._count(0, queued=-1)
            self._launch(self._queue.popleft())
        self._update_timers()
        if not (self._waits_for_all and (self._running or self._queue)):
            self._wake_up()
        if branch.cancelled:
            delivery.end_unwind()
        delivery.close_lane(branch.scope.lane)

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._scope.run.delivery.unpark(self._scope.lane)
            self._wake.set_result(None)

    def _update_timers(self) -> None:
        """Update the timers, because all remaining branches may wait for people or providers."""
        if self._scope.lane.blocked_children or self._scope.lane.idle_children:
            update_timers(self._scope.lane)

    def _count_busy(self, change: int) -> None:
        if self._scope.in_agent:
            self._scope.run.busy_agents += change

    def _count(self, change: int, queued: int = 0) -> None:
        """Count branches that are busy, and that may be about to ask, so that none of them takes what others need."""
        scope = self._scope
        if scope.in_agent:
            scope.run.busy_agents += change
        if scope.account is not None:
            scope.account.add_branches(change, queued)

    async def _rejoin(self) -> None:
        """After stopping branches, which takes an arbitrary time, continue in an order that a replay repeats."""
        if self._abandoned:
            await self._scope.run.park_until_cancelled()
        if self._stopped:
            self._stopped = False
            await self._scope.run.delivery.rejoin(self._scope.lane)

    async def _wait(self, *, for_all: bool = False) -> None:
        """Wait for the next branch to finish or, with `for_all`, for the last."""
        scope, lane, delivery = self._scope, self._scope.lane, self._scope.run.delivery
        self._waits_for_all = for_all
        self._wake = asyncio.get_running_loop().create_future()
        self._count_busy(-1)
        lane.waits_for_children = True
        self._update_timers()
        delivery.park(lane)
        account = None if scope.account is None else scope.branch_account
        if account is not None:
            account.add_branches(-1)  # it waits for branches that count themselves
        try:
            await self._wake
        finally:
            if account is not None:
                account.add_branches(1)
            self._wake = None
            if not self._abandoned:
                lane.waits_for_children = False
                self._update_timers()
                self._count_busy(1)
                delivery.unpark(lane)
