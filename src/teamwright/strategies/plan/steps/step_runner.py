"""Runs the steps of a plan as their dependencies complete, each in a branch of its own, until all have ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from teamwright.agents.agent import Agent, Branches, Context
from teamwright.errors import AgentTimeout, ExpressionFailed, NotOwned
from teamwright.strategies.part_results import PartWork
from teamwright.strategies.plan.options import own_key
from teamwright.strategies.plan.steps.step_board import StepInput, StepOutputs
from teamwright.strategies.plan.steps.step_queue import Skip, StepQueue
from teamwright.values.events.team import StepHeldUp
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
"""Called before a step starts, with the name of its branch; returns whether the plan has changed."""
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

    async def step_skipped(self, step: Step, skip: Skip, ctx: Context) -> None:
        """Record that a step is left out, also one that began and was to be tried again."""
        ...

    async def step_stopped(self, step: Step, ctx: Context, *, was_running: bool) -> None:
        """Record that a person has stopped a step, whether it was running or not."""
        ...


class StepStops:
    """The steps that people have stopped and that have not ended. One that is required fails the team."""

    def __init__(self, queue: StepQueue, outputs: StepOutputs, hooks: StepHooks) -> None:
        self._queue, self._outputs, self._hooks = queue, outputs, hooks
        self.pending: set[str] = set()

    async def skip_waiting(self, ctx: Context) -> None:
        """End the steps that were stopped before they started, so that those which need them may start."""
        queue = self._queue
        for id_ in [one for one in queue.steps if one in self.pending and one not in queue.running]:
            if id_ not in queue.ended:
                self._leave_out(queue.steps[id_])
                await self._hooks.step_stopped(queue.steps[id_], ctx, was_running=False)
        self.pending &= queue.running.keys()
        queue.set_steps([*queue.steps.values()], self._outputs.closing)

    async def end(self, id_: str, ctx: Context) -> None:
        """End a step whose work was cancelled: it has no result."""
        self.pending.discard(id_)
        for known in (self._outputs.results.replies, self._outputs.results.failures):
            known.pop(id_, None)
        self._leave_out(self._queue.steps[id_])
        self._queue.release(id_)
        self._queue.settle(id_)
        await self._hooks.step_stopped(self._queue.steps[id_], ctx, was_running=True)

    def _leave_out(self, step: Step) -> None:
        self._queue.skipped.add(step.id)
        if step.required:
            text = "it is required, and a person stopped it"
            self._outputs.results.fail(step.id, Failure(member=step.agent or step.id, error="needs", message=text))


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
        self._wakes = 0
        self._stops = StepStops(self.queue, outputs, hooks)

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

    def stop(self, step: str) -> None:
        """Stop a step that has not ended: what works on it is cancelled, and it ends without a result."""
        self._stops.pending.add(step)
        branch = next((name for name, id_ in self._started.items() if id_ == step), None)
        if branch is not None and self._branches is not None:
            self._branches.cancel(branch)
        elif step not in self.queue.running:  # so that the loop looks at it now
            self._wakes += 1
            self.start_aside(own_key(f"stop-{self._wakes}"), _do_nothing, _ignore)

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
                        if step.id in self._stops.pending:
                            await self._stops.end(step.id, ctx)
                        else:
                            self._start(step, branches)
                elif branch.name in self._asides:
                    await self._asides.pop(branch.name)(branch.result(), ctx)
                else:
                    step = self._started.pop(branch.name)
                    if branch.cancelled:
                        await self._stops.end(step, ctx)
                    else:
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
        if self._stops.pending:
            await self._stops.skip_waiting(ctx)
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
                await self._hooks.step_skipped(step, skip, ctx)
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
            place = self._branch_names.get(step.id) or self._hooks.place_of(step)  # where a step is tried again, there
            if place not in self._checked:
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


async def _do_nothing(_: Context) -> None:
    """Let the loop over steps look again."""


async def _ignore(_: object, ctx: Context) -> None:
    """Need no result."""
