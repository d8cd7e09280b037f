"""The handle of a run that was started in the background, and the driver of an engine, which its runs share.

A handle waits for the result of its run, or stops driving it. The driver launches runs in background tasks, and holds
what they have in common: clients of models, rate limits, listeners, webhooks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeVar

import anyio

from teamwright.agents.clients.client_pool import SHARED_MODELS, Models
from teamwright.agents.tools.protocol import SHARED_DEPENDENCIES, SHARED_POOL, Dependencies, McpPool
from teamwright.errors import BudgetUnavailable, FencedOut, RunIsLive, UsageError
from teamwright.journal.agent_notes import SHARED_NOTES, SharedNotes
from teamwright.journal.protocol import commit, driver_lock
from teamwright.runtime.budget.prompt_meter import PromptMeter
from teamwright.runtime.budget.rate_limiter import RateLimiters, SharedLimits
from teamwright.runtime.budget.tenant_budgets import TenantBudgets
from teamwright.runtime.event_publisher import Bus, Relay
from teamwright.runtime.people.webhook import Deliveries
from teamwright.runtime.recorded.runs import Runs
from teamwright.runtime.run_control import LiveRuns
from teamwright.runtime.tasks import CANCEL_GRACE, BackgroundTasks
from teamwright.runtime.transport import Transport, opened_transport

if TYPE_CHECKING:
    from teamwright.history.run_record import RunRecord
    from teamwright.history.telemetry.exporter import Exporter
    from teamwright.journal.protocol import Batch, Journal
    from teamwright.runtime.placement import Placement
    from teamwright.runtime.run import Run
    from teamwright.runtime.run_control import RunControl
    from teamwright.runtime.run_request import RunInput
    from teamwright.runtime.run_state import ReplayObserver
    from teamwright.teams.team import Team
    from teamwright.values.events.run import RunAborted
    from teamwright.values.people import Cancel
    from teamwright.values.turns.results import RunResult


T = TypeVar("T")


class Handle:
    """A started run: its id, and its result once it has ended."""

    __slots__ = ("_done", "_driver", "_error", "_has_mode", "_result", "control", "run_id")

    def __init__(self, driver: Driver, run_id: str, control: RunControl | None = None) -> None:
        self.run_id, self._driver = run_id, driver
        self.control = control
        """What stops and steers the run; `None` if it is not driven through this handle."""
        self._done = anyio.Event()
        self._result: RunResult | None = None
        self._error: Exception | None = None
        self._has_mode = False

    async def drive(self, run: Run, run_input: RunInput | None) -> None:
        """Drive the run to its end; its driver calls this."""
        driver, control = self._driver, run.control
        try:
            async with driver.resources(run.notes_team):
                result = await run.drive(run_input)
            if result is None and (cancel := control.pending_cancel):
                result = await driver.end(self.run_id, cancel)
            if result is not None and control.budget:
                await driver.tenants.settle(self.run_id)
            self._result = result or await driver.runs.result(self.run_id)
        except (RunIsLive, FencedOut) as error:
            if run_input is None or run.has_begun:
                self._error = error
            else:
                self.control = None  # another driver started a run of this id at the same moment
        except Exception as error:  # noqa: BLE001 - raised from `result`
            self._error = error
        finally:
            driver.release(run)
            control.begun.set()
            self._done.set()

    @property
    def drives(self) -> bool:
        """Whether the run is driven through this handle; false if a run of its id existed before."""
        return self.control is not None

    def raise_refusal(self) -> None:
        """Raise the error of a run that could not begin, because the budget of its tenant has no room for it."""
        if isinstance(self._error, BudgetUnavailable):
            raise self._error

    def set_interactive(self, interactive: bool) -> None:
        """Say whether questions are answered while the run is driven, as by a person at a terminal.

        An interactive run waits for its answers. Otherwise, which is the default, the run pauses once only an answer
        can unblock it.
        """
        self._has_mode = True
        if self.control is not None:
            self.control.set_interactive(interactive)

    def apply_default_mode(self) -> None:
        """Make the run non-interactive unless `set_interactive` was called; its driver calls this."""
        if not self._has_mode:
            self.set_interactive(False)

    def interrupt(self) -> None:
        """Stop driving; the run can be resumed. `result` then returns its present status."""
        if self.control is not None:
            self.control.interrupt()

    async def result(self) -> RunResult:
        """Wait for the end of the run. Cancelling the wait interrupts the run, which can be resumed.

        A run that another process drives is waited for as well, and continues when the wait is cancelled.
        """
        if self.control is not None:
            try:
                await self._done.wait()
            except anyio.get_cancelled_exc_class():
                self.interrupt()
                raise
        if self._error is not None:
            raise self._error
        if self.control is None:
            return await self._driver.runs.wait(self.run_id)
        return self._result or await self._driver.runs.result(self.run_id)


class Driver:
    """Drives the runs of one engine: what they share, and the background tasks in which they go on.

    `name` is that of this process in the records of its runs, for a server or a worker; others are named by host.
    """

    def __init__(
        self,
        journal: Journal,
        wall: Callable[[], float],
        new_clock: Callable[[float], Callable[[], float]],
        *,
        grace: float | None = None,
        deps: tuple[object, ...] = (),
        shared: SharedLimits | None = None,
        transport: Transport | str | None = None,
        placement: Placement | Literal["here"] | None = None,
        otlp: str | None = None,
    ) -> None:
        self.journal, self.name = journal, ""
        self._otlp = otlp
        self.exporter: Exporter | None = None
        """What sends telemetry, if there is a receiver and the driver is open."""
        self.grace = CANCEL_GRACE if grace is None else grace
        self.bus = Bus()
        self.models, self.dependencies, self._mcp = Models(), Dependencies(deps), McpPool()
        self.observer: ReplayObserver | None = None
        """What observes every run from inside, and may stand in for its calls; `None` but in tests."""
        self._shared, self.limiters, self._prompt_meter = shared, RateLimiters(shared), PromptMeter(journal)
        self._new_clock = new_clock
        self.live = LiveRuns(journal)
        self._wall = wall
        self._deliveries: Deliveries | None = None
        self.relay, self._transport = Relay(self.bus), transport
        self._placement = None if placement == "here" else placement
        self._has_placement = placement is not None
        self._stack = AsyncExitStack()
        self._tasks = BackgroundTasks()

    @cached_property
    def runs(self) -> Runs:
        return Runs(self.journal, self.bus, self.live, self.relay, self._new_clock, self.end, self.models)

    @cached_property
    def tenants(self) -> TenantBudgets:
        return TenantBudgets(self.journal)

    @property
    def deliveries(self) -> Deliveries:
        """The webhook deliveries in flight; few engines have any."""
        if self._deliveries is None:
            self._deliveries = Deliveries(self.journal, self._wall)
        return self._deliveries

    def require_open(self) -> None:
        """Raise `UsageError` unless the driver is open in this event loop."""
        self._tasks.group()

    async def open(self) -> None:
        """Open the journal and what runs share. It may be opened again after it was closed."""
        if self._tasks.is_open:
            raise UsageError("The engine is open already; close it first, or use it as it is.")
        async with AsyncExitStack() as stack:
            await self.journal.open()
            stack.push_async_callback(self.journal.close)
            if self._shared is not None:
                await self._shared.open()
                stack.push_async_callback(self._shared.close)
            if self._placement is not None:
                await self._placement.open(self.journal, self.bus, self.runs.cancel)
                stack.push_async_callback(self._placement.close)
            if self._otlp is not None:
                from teamwright.history.telemetry.exporter import Exporter  # few engines have a receiver

                self.exporter = Exporter(self._otlp, self.journal)
                stack.push_async_callback(self.exporter.close)
                stack.enter_context(self.bus.observing(self.exporter.observe))
            await stack.enter_async_context(self.models)
            stack.push_async_callback(self._mcp.close)
            if self._deliveries is not None:
                self._deliveries.open()
            await self._tasks.open()
            stack.push_async_callback(self._tasks.close)
            self._tasks.group().start_soon(self.live.watch_inboxes)
            transport = None
            if self._transport is not None or not self.journal.instant:
                opened = opened_transport(self._transport, by_default=not self.journal.instant)
                transport = await stack.enter_async_context(opened)
            stack.enter_context(self.relay.over(transport))
            self._tasks.group().start_soon(self.relay.send_all)
            if self._shared is not None:
                self._tasks.group().start_soon(self._shared.keep)
            self._stack = stack.pop_all()

    async def close(self, *, wait: bool) -> None:
        """Interrupt running runs and close; `wait` for webhook deliveries in flight. Does nothing if it is not open."""
        if not self._tasks.is_open:
            return
        self.require_open()  # raises in another event loop, which could not close it
        for control in self.live:
            control.interrupt()
        try:
            if wait and self._deliveries is not None:
                await self._deliveries.close()
        finally:
            await self._stack.aclose()

    def new_run(
        self,
        run_id: str,
        team: Team,
        record: RunRecord | None = None,
        lock: AbstractAsyncContextManager[object] | None = None,
    ) -> Run:
        """Return a run that can be launched, or whose first batch can be made."""
        from teamwright.runtime.run import Run  # many engines only read runs

        run = Run(
            run_id,
            team,
            self.journal,
            self.bus,
            self.clock(record),
            self.limiters,
            record,
            lock=lock,
            grace=self.grace,
            driver=self.name,
            prompt_meter=self._prompt_meter,
        )
        if self.observer is not None:
            run.observe(self.observer)
        if self._placement is not None:
            run.place_branches(self._placement, self._child_batch)
        return run

    def _child_batch(self, run_id: str, team: Team, run_input: RunInput) -> Batch:
        """Return the first batch of a child run, which waits in the queue of the placement."""
        assert self._placement is not None
        return self.new_run(run_id, team).enqueue(run_input, self._placement.queue)

    async def begin_trees(self, team: Team, run_id: str) -> str:
        """Copy the files of a team's workspace, and return the commit that its branch begins at; empty without one."""
        if team.workspace is None:
            return ""
        if self.observer is not None and self.observer.commit:
            return self.observer.commit
        from teamwright.runtime.working_trees.member_trees import begin_trees  # few teams work on files

        return await begin_trees(team.workspace, run_id)

    def launch(self, run: Run, team: Team, run_input: RunInput | None) -> Handle:
        if not self._has_placement and any(one.places_branches for one in team.roster.teams):
            from teamwright.runtime.placement import require_no_placement

            require_no_placement(team.roster.teams)
        control = run.control
        handle = Handle(self, run.run_id, control)
        control.interactive = True  # until the owner of the handle had a chance to call `set_interactive`
        self.live.add(control)
        self.relay.drive(run.run_id, lambda: control.state.recorder.last_durable)
        self._tasks.group().start_soon(handle.drive, run, run_input)
        return handle

    def attach(self, run_id: str) -> Handle:
        """Return the handle of a run that this driver does not drive."""
        return Handle(self, run_id)

    def hand_out(self, handle: Handle) -> Handle:
        """Return the handle so that its owner can call `set_interactive` before anything else happens."""
        asyncio.get_running_loop().call_soon(handle.apply_default_mode)
        return handle

    @asynccontextmanager
    async def resources(self, team: str) -> AsyncGenerator[None]:
        """Within this block, the agents of a team share the engine's clients and notes, and their own MCP servers."""
        servers = McpPool(self._mcp)
        notes = SharedNotes(self.journal.notes, team)
        with (
            _bound(SHARED_MODELS, self.models),
            _bound(SHARED_DEPENDENCIES, self.dependencies),
            _bound(SHARED_NOTES, notes),
            _bound(SHARED_POOL, servers),
        ):
            try:
                yield
                await self._prompt_meter.save()
            finally:
                await servers.close()

    def release(self, run: Run) -> None:
        """Remove a run from the live runs, and notify its webhook if it waits for people."""
        self.relay.release(run.run_id)
        self.live.remove(run.run_id)
        if run.webhook_delivery is not None and self._tasks.is_open:  # a closing engine starts no delivery
            self.deliveries.start(self._tasks.group(), run.webhook_delivery)

    async def end(self, run_id: str, ending: Cancel | RunAborted) -> RunResult:
        """Record the end of a run that has no driver and whose end was decided; people call `runs.cancel`."""
        from teamwright.history.cancel import cancel_batch

        async with self.deliveries.recording:
            lock = AsyncExitStack()
            await lock.enter_async_context(driver_lock(self.journal, run_id))
        async with lock:
            inbox = await self.journal.inbox(run_id)
            history = await self.runs.history(run_id)
            if history.record.ended is None:  # else it ended, or was cancelled elsewhere, before this had the lock
                now = self.clock(history.record)()
                await commit(self.journal, cancel_batch(history, ending, inbox[-1].id if inbox else 0, now))
        return await self.runs.result(run_id)

    def clock(self, record: RunRecord | None = None) -> Callable[[], float]:
        """Return the clock of one driver of a run, which starts no earlier than the last recorded event."""
        return self._new_clock(record.latest_time if record is not None else 0.0)


@contextmanager
def _bound(variable: ContextVar[T], value: T) -> Generator[None]:
    """Within this block, the tasks of a run find this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
