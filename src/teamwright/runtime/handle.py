"""The handle of a run that was started in the background: waits for its result, or stops driving it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio

from teamwright.errors import BudgetUnavailable, FencedOut, RunIsLive

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from teamwright.runtime.budget.tenant_budgets import TenantBudgets
    from teamwright.runtime.run import Run
    from teamwright.runtime.run_request import RunInput
    from teamwright.runtime.runs import Runs
    from teamwright.values.turns.results import RunResult


class Driver(Protocol):
    """What a handle needs of the engine that drives its run."""

    runs: Runs
    tenants: TenantBudgets

    def resources(self, team: str) -> AbstractAsyncContextManager[None]:
        """Share the connections of the engine and of one run within this block."""
        ...

    def release(self, run: Run) -> None:
        """Remove a run from the live runs, and notify its webhook if it waits for people."""
        ...


@dataclass(slots=True)
class Handle:
    """A started run: its id, and its result once it has ended."""

    engine: Driver
    run_id: str
    _run: Run | None = None
    _run_input: RunInput | None = None
    _done: anyio.Event | None = None
    _result: RunResult | None = None
    _error: Exception | None = None
    _interactive: bool | None = None

    def __post_init__(self) -> None:
        self._done = anyio.Event()

    async def drive(self) -> None:
        """Drive the run to its end; the engine calls this."""
        run = self._run
        assert run is not None
        assert self._done is not None
        try:
            async with self.engine.resources(run.notes_team):
                result = await run.drive(self._run_input)
            if result is None and (cancel := run.pending_cancel):
                result = await self.engine.runs.end(self.run_id, cancel)
            if result is not None and run.budget:
                await self.engine.tenants.settle(self.run_id)
            self._result = result or await self.engine.runs.result(self.run_id)
        except (RunIsLive, FencedOut) as error:
            if self._run_input is None or run.has_begun:
                self._error = error
            else:
                self._run = None  # another driver started a run of this id at the same moment
        except Exception as error:  # noqa: BLE001 - raised from `result`
            self._error = error
        finally:
            self.engine.release(run)
            run.begun.set()
            self._done.set()

    @property
    def drives(self) -> bool:
        """Whether the run is driven through this handle; false if a run of its id existed before."""
        return self._run is not None

    def raise_refusal(self) -> None:
        """Raise the error of a run that could not begin, because the budget of its tenant has no room for it."""
        if isinstance(self._error, BudgetUnavailable):
            raise self._error

    def set_interactive(self, interactive: bool) -> None:
        """Say whether questions are answered while the run is driven, as by a person at a terminal.

        An interactive run waits for its answers. Otherwise, which is the default, the run pauses once only an answer
        can unblock it.
        """
        self._interactive = interactive
        if self._run is not None:
            self._run.set_interactive(interactive)

    def apply_default_mode(self) -> None:
        """Make the run non-interactive unless `set_interactive` was called; the engine calls this."""
        if self._interactive is None:
            self.set_interactive(False)

    def is_past_deadline(self, seconds: float) -> bool:
        """Whether a deadline passed more than `seconds` ago without the event loop acting on it. Thread-safe."""
        return self._run is not None and self._run.is_past_deadline(seconds)

    @property
    def last_inbox_id(self) -> int:
        """The id of the last inbox item that the run's driver has received."""
        return self._run.last_inbox_id if self._run is not None else 0

    def interrupt(self) -> None:
        """Stop driving; the run can be resumed. `result` then returns its present status."""
        if self._run is not None:
            self._run.interrupt()

    def hand_back(self, queue: str) -> None:
        """Stop driving once in-flight calls have finished; the run then waits in a queue for another driver."""
        if self._run is not None:
            self._run.hand_back(queue)

    async def result(self) -> RunResult:
        """Wait for the end of the run. Cancelling the wait interrupts the run, which can be resumed.

        A run that another process drives is waited for as well, and continues when the wait is cancelled.
        """
        if self._run is not None and self._done is not None:
            try:
                await self._done.wait()
            except anyio.get_cancelled_exc_class():
                self.interrupt()
                raise
        if self._error is not None:
            raise self._error
        if self._run is None:
            return await self.engine.runs.wait(self.run_id)
        return self._result or await self.engine.runs.result(self.run_id)
