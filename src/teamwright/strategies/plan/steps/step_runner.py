"""Runs the steps of a plan as their dependencies complete.

A step waits for the steps it needs, for owned keys and for a free slot, and for nothing else: there are no waves. Among
ready steps, the one with the longest critical path starts first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent, Branches, Context
from teamwright.errors import AgentTimeout, ExpressionFailed, NotOwned
from teamwright.strategies.parts import PartWork
from teamwright.strategies.plan.steps.step_outputs import StepInput, StepOutputs
from teamwright.strategies.plan.steps.step_queue import StepQueue
from teamwright.values.events.team import StepHeldUp, StepSkipped
from teamwright.values.specs.plan import Step
from teamwright.values.turns.turn import Failure, Turn

SCOPE = "step"
"""The scope of a step with owned keys or limits, within the branch named after the step."""

MOST_NAMED = 5


class Prelude(NamedTuple):
    """Work that must complete before a step starts, in a branch of this name; several steps may share it.

    It stops all further steps by setting `results.is_over`.
    """

    name: str
    work: Callable[[Context], Awaitable[None]]


BeforeStart = Callable[[str, Context], Awaitable[bool]]
"""Called before a step starts, with the name of the branch that it starts; returns whether the plan has changed."""
OnEnd = Callable[[str, Context], Awaitable[None]]
"""Called when work on a step has ended; it calls `end_step`, unless the step is tried again."""
Then = Callable[[object, Context], Awaitable[None]]
"""Called with the result of work that ran beside the steps."""


class StepHooks(Protocol):
    """Decides who works on each step, with which turn and how, and what happens before and after it."""

    def place_of(self, step: Step) -> str:
        """Return the branch that a step starts first: its own, or the one that it waits for."""
        ...

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the agent for a step that starts now."""
        ...

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return the turn of a step."""
        ...

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return the work that must complete before a step starts, if any."""
        ...

    def work_of(self, step: Step) -> PartWork | None:
        """Return how a step is worked on, if it is not by one ask alone."""
        ...

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Process the result of a step, before any dependent step starts."""
        ...


class StepRunner:
    """One execution of the steps of a plan, which may change meanwhile."""

    def __init__(self, outputs: StepOutputs, hooks: StepHooks, *, in_order: bool, as_listed: bool) -> None:
        self._outputs, self._results, self._hooks = outputs, outputs.results, hooks
        self.queue = StepQueue(outputs, in_order=in_order, as_listed=as_listed)
        self.workers: dict[str, Agent] = {}
        self._holding: set[str] = set()
        self.is_held = False
        """Whether no further step starts in this call of `run`."""
        self._completed_preludes: set[str] = set()
        self._awaiting_prelude: dict[str, list[Step]] = {}
        self._branches: Branches | None = None
        self._started: dict[str, str] = {}
        """The steps that are worked on, by their branches."""
        self._asides: dict[str, Then] = {}
        self._pending: list[tuple[str, Callable[[Context], Awaitable[object]]]] = []
        self._branch_names: dict[str, str] = {}
        """The branches of steps that are tried again."""
        self._checked: set[str] = set()
        """The branches before which the plan could change; each is asked for once."""

    def watch(self, before_start: BeforeStart, on_end: OnEnd) -> None:
        """Let the plan change before steps start, and after work on one has ended."""
        self._before_start, self._on_end = before_start, on_end

    def hold_after(self, step: str) -> None:
        """Start no further step once this one has ended: `run` returns when those that run have ended."""
        self._holding.add(step)

    def start_aside(self, name: str, work: Callable[[Context], Awaitable[object]], then: Then) -> None:
        """Do something beside the steps, at the latest in the next call of `run`; `then` gets its result."""
        self._asides[name] = then
        if self._branches is None:
            self._pending.append((name, work))
        else:
            self._branches.start(name, work)

    def suspend(self, step: str, branch: str) -> None:
        """Take a step back whose work has ended, so that it may change; it starts again in a branch of this name."""
        self._results.failures.pop(step, None)
        self.queue.release(step)
        self._branch_names[step] = branch

    def end_step(self, step: str) -> None:
        """Note that a step has ended, so that those which need it may start."""
        self.queue.release(step)
        self.queue.settle(step)

    async def run(self, limit: int, ctx: Context, only: Collection[str] | None = None) -> None:
        """Start each step once its needs are settled, at most `limit` at once, and wait for all of them.

        With `only`, run just these steps; the others can be run by a later call.
        """
        self.is_held = False
        self.queue.recall()
        async with ctx.branches(limit) as branches:
            self._branches = branches
            for name, work in self._pending:
                branches.start(name, work)
            self._pending.clear()
            await self._queue_ready(only, ctx)
            await self._start_ready(limit, branches, ctx, only)
            async for branch in branches.finished():
                if branch.name in self._awaiting_prelude:
                    self._completed_preludes.add(branch.name)
                    for step in self._awaiting_prelude.pop(branch.name):
                        self._start(step, branches)
                elif branch.name in self._asides:
                    await self._asides.pop(branch.name)(branch.result(), ctx)
                else:
                    step = self._started.pop(branch.name)
                    await self._on_end(step, ctx)
                    self.is_held = self.is_held or step in self._holding
                await self._queue_ready(only, ctx)
                await self._start_ready(limit, branches, ctx, only)
            self._branches = None

    def turn_for(self, step: Step) -> Turn:
        """Return the turn of a step."""
        turn = self._hooks.make_turn(self._outputs.input_of(step, self.queue.numbers[step.id]))
        return turn if step.id != self._outputs.closing else replace(turn, closing=True)

    def scope_for(self, name: str, step: Step, ctx: Context) -> AbstractAsyncContextManager[Context]:
        """Return a scope for a step, with its limits and owned keys."""
        return ctx.scope(name, step.limits, step.owns if self.queue.has_owned_keys else None, self.queue.priority(step))

    async def _queue_ready(self, only: Collection[str] | None, ctx: Context) -> None:
        """Queue the ready steps or skip them, which may make others ready."""
        queue = self.queue
        while not (self._results.is_over or self.is_held) and (ready := queue.next_ready(only)) is not None:
            step = queue.steps[ready]
            try:
                if (skip := queue.skip_reason(step)) is None:
                    queue.claim(step)
                    continue
                if step.required and skip.reason == "needs":
                    text = f"it is required, and nothing that it needs has a result ({', '.join(step.needs)})"
                    failure = Failure(member=step.agent or step.id, error="needs", message=text)
                    self._results.fail(step.id, failure)
                    queue.settle(step.id)
                    continue
                queue.skipped.add(step.id)
                await ctx.emit(StepSkipped(step=step.id, reason=skip.reason, because=tuple(skip.because)))
            except ExpressionFailed as error:
                self._fail(step, error)
            queue.settle(step.id)

    async def _start_ready(self, limit: int, branches: Branches, ctx: Context, only: Collection[str] | None) -> None:
        """Start queued steps while there are free slots, and emit an event for those that wait for keys."""
        if self._results.is_over:
            branches.cancel()
            return
        if self.is_held:
            return
        width = ctx.cutback.width(limit)
        queue = self.queue
        while len(queue.running) < width and (claim := queue.claims.grant_next()) is not None:
            step = queue.steps[claim.name]
            if (place := self._hooks.place_of(step)) not in self._checked:
                self._checked.add(place)
                if await self._before_start(place, ctx):
                    await self._queue_ready(only, ctx)  # the claims of another plan
                    if self._results.is_over or self.is_held:
                        return
                    continue
            queue.running[step.id], self.workers[step.id] = claim, self._hooks.assign(step, ctx)
            self._start(step, branches)
        for claim in queue.claims.held_up:
            keys, ahead = queue.claims.ahead_of(claim)
            by = tuple(one.name for one in ahead[:MOST_NAMED])
            await ctx.emit(StepHeldUp(step=claim.name, keys=tuple(keys), by=by))
        queue.claims.held_up.clear()

    def _start(self, step: Step, branches: Branches) -> None:
        """Start a step, or the prelude that it waits for."""
        if self._results.is_over:
            return
        worker = self.workers[step.id]
        prelude = self._hooks.prelude(step, worker)
        if prelude is None or prelude.name in self._completed_preludes:
            name = self._branch_names.get(step.id, step.id)
            self._started[name] = step.id
            branches.start(name, partial(self._work, step, worker))
        elif prelude.name in self._awaiting_prelude:
            self._awaiting_prelude[prelude.name].append(step)
        else:
            self._awaiting_prelude[prelude.name] = [step]
            branches.start(prelude.name, prelude.work)

    async def _work(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Ask the worker and process its result."""
        make_turn, work = partial(self.turn_for, step), self._hooks.work_of(step)
        if step.limits is None and not self.queue.has_owned_keys:
            await self._results.run(step.id, worker, make_turn, ctx, work)
        else:
            try:
                async with self.scope_for(SCOPE, step, ctx) as inner:
                    await self._results.run(step.id, worker, make_turn, inner, work)
            except (AgentTimeout, NotOwned) as error:
                self._fail(step, error)
        await self._hooks.after_step(step, worker, ctx)

    def _fail(self, step: Step, error: AgentTimeout | NotOwned | ExpressionFailed) -> None:
        worker = self.workers.get(step.id)
        name = (step.agent or step.id) if worker is None else worker.name
        self._results.fail(step.id, Failure(member=name, error=error.kind, message=str(error)))
