"""Runs the steps of a plan as their dependencies complete.

A step waits for the steps it needs, for owned keys and for a free slot, and for nothing else: there are no waves. Among
ready steps, the one with the longest critical path starts first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Literal, NamedTuple, Protocol

from msgspec.structs import replace
from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.agents.contract.agent import Agent, Branches, Context
from teamwright.agents.evaluators import Evaluator
from teamwright.agents.review import ask_evaluated
from teamwright.errors import AgentTimeout, ExpressionFailed, NotOwned
from teamwright.strategies.expressions.conditions_and_templates import Condition, Template
from teamwright.strategies.parts import WORK, FailurePolicy, PartResults, PartWork, result_of
from teamwright.strategies.plan.graph import StepGraph, critical_path_lengths
from teamwright.strategies.plan.key_locks import Claim, LockTable
from teamwright.strategies.plan.planner import nodes_of
from teamwright.strategies.plan.step_options import step_evaluators
from teamwright.strategies.protocol import Members, Task
from teamwright.strategies.team_conversation import is_unaffordable
from teamwright.values.events.team import StepHeldUp, StepSkipped
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Reply, Turn

FAILED = "This step failed: there is no result of it."

SCOPE = "step"
"""The scope of a step with owned keys or limits, within the branch named after the step."""

PRIORITY_WEIGHT = 1 << 40
"""How much one point of priority counts, in tokens of critical-path length; it outweighs any path."""

MOST_NAMED = 5


class Skip(NamedTuple):
    """Why a step is skipped, and because of which of its needs."""

    reason: Literal["condition", "needs", "failure"]
    because: Sequence[str] = ()


class StepInput(NamedTuple):
    """The input of a step: its position, its own task if it has one, and the results of the steps it needs.

    `output` renders those results as one text; None if the step needs no other.
    """

    step: Step
    number: int
    own_task: str | None
    inputs: Sequence[Message]
    output: Callable[[], str] | None


class Prelude(NamedTuple):
    """Work that must complete before a step starts, in a branch of this name; several steps may share it.

    It stops all further steps by setting `results.is_over`.
    """

    name: str
    work: Callable[[Context], Awaitable[None]]


StepWork = Callable[[Step, Context, Agent, Turn], Awaitable[Reply | Failure]]
"""Lets the agent of a step work on it with this turn, and returns how that ended."""


class StepHooks(Protocol):
    """Decides who works on each step and with which turn, and what happens before and after it."""

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the agent for a step that starts now."""
        ...

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return the turn of a step."""
        ...

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return the work that must complete before a step starts, if any."""
        ...

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Process the result of a step, before any dependent step starts."""
        ...


class StepRunner:
    """One execution of the steps; with `in_order` they start in topological order, regardless of critical path.

    `closing` is the step that gives the answer, if there is one. Where the budget did not cover the steps that it
    needs, it works with the results before them.
    """

    def __init__(
        self,
        task: Task,
        steps: Sequence[Step],
        policy: FailurePolicy,
        hooks: StepHooks,
        *,
        in_order: bool = False,
        closing: str | None = None,
    ) -> None:
        self.results = PartResults(policy)
        self.workers: dict[str, Agent] = {}
        self._task, self._policy, self._hooks, self._in_order = task, policy, hooks, in_order
        self._skipped: set[str] = set()
        self._after_failure: set[str] = set()
        self._holding: set[str] = set()
        self._is_held = False
        self._running: dict[str, Claim] = {}
        self._completed_preludes: set[str] = set()
        self._awaiting_prelude: dict[str, list[Step]] = {}
        self._evaluators: dict[str, Evaluator] = {}
        self._step_work: StepWork | None = None
        self._set_steps(steps, closing)

    def _set_steps(self, steps: Sequence[Step], closing: str | None, ended: Collection[str] = ()) -> None:
        """Take over the steps of a plan, of which some may have ended."""
        self.graph = StepGraph.from_nodes(nodes_of(steps))
        self._closing = closing
        self._steps = {step.id: step for step in steps}
        self._unmet = {step.id: sum(need not in ended for need in step.needs) for step in steps}
        self._ready = deque(step for step in self.graph.order if step not in ended and not self._unmet[step])
        self._deferred: list[str] = []
        """Steps that are ready and left to a later call of `run`."""
        self._numbers = {step: number for number, step in enumerate(self.graph.order, start=1)}
        self._path_lengths = critical_path_lengths(self.graph, steps)
        self._has_owned_keys = any(step.owns for step in steps)
        self._claims = LockTable()

    def hold_after(self, step: str) -> None:
        """Start no further step once this one has ended: `run` returns when those that run have ended."""
        self._holding.add(step)

    def replace_steps(self, steps: Sequence[Step], closing: str | None) -> None:
        """Continue with another plan in the next call of `run`. Steps that ended stay ended; it has all of them."""
        self._set_steps(steps, closing, self._ended)

    @property
    def open_steps(self) -> set[str]:
        """The steps that have neither ended nor been skipped."""
        return self._steps.keys() - self._ended

    @property
    def _ended(self) -> set[str]:
        return self.results.replies.keys() | self.results.failures.keys() | self._skipped

    def evaluate_steps(self, members: Members) -> None:
        """Evaluate the results of steps that say so, with members and helpers of the team as judges."""
        self._evaluators = step_evaluators(self._steps.values(), members)

    def work_by(self, work: StepWork) -> None:
        """Let steps be worked on in another way than by one ask of their agent, whose reply is evaluated."""
        self._step_work = work

    def _work_of(self, step: Step) -> PartWork:
        if self._step_work is not None:
            return partial(self._step_work, step)
        return partial(ask_evaluated, key=WORK, evaluator=self.evaluator_for(step))

    def evaluator_for(self, step: Step) -> Evaluator | None:
        """Return the evaluator of a step's results, if it has one."""
        return self._evaluators.get(step.id)

    async def run(self, limit: int, ctx: Context, only: Collection[str] | None = None) -> None:
        """Start each step once its needs are settled, at most `limit` at once, and wait for all of them.

        With `only`, run just these steps; the others can be run by a later call.
        """
        self._is_held = False
        self._ready.extendleft(reversed(self._deferred))
        self._deferred.clear()
        async with ctx.branches(limit) as branches:
            await self._queue_ready(only, ctx)
            await self._start_ready(limit, branches, ctx)
            async for branch in branches.finished():
                if branch.name in self._awaiting_prelude:
                    self._completed_preludes.add(branch.name)
                    self._start(self._awaiting_prelude.pop(branch.name), branches)
                else:
                    self._claims.release(self._running.pop(branch.name))
                    self._is_held = self._is_held or branch.name in self._holding
                    self._ready.extend(self._ready_after(branch.name))
                await self._queue_ready(only, ctx)
                await self._start_ready(limit, branches, ctx)

    def answer_data(self, answer: str | None) -> JsonValue:
        """Return the data of the answer step; if several steps are final, the result of each by id."""
        replies, final_steps = self.results.replies, self.final_steps
        if answer in replies:
            return replies[answer].full.data
        if len(final_steps) == 1:
            return replies[final_steps[0]].full.data
        return {step: result_of(replies[step]) for step in final_steps} or None

    @property
    def has_closed(self) -> bool:
        """Whether the closing step has a result, so that steps that the budget did not cover do not fail the team."""
        return self._closing in self.results.replies

    @property
    def final_steps(self) -> list[str]:
        """The steps with a result that no other step with a result depends on."""
        replies, dependents = self.results.replies, self.graph.dependents
        return [step for step in self.graph.order if step in replies and replies.keys().isdisjoint(dependents[step])]

    def position(self, step: str) -> int:
        """Return the position of a step in topological order, from 1."""
        return self._numbers[step]

    def message_of(self, step: str) -> Message:
        """Return the result of a step as a message under its id; for a failed step, only that it failed."""
        reply = self.results.replies.get(step)
        if reply is None:
            return Message(name=step, content=FAILED, role="user")
        return Message(name=step, content=reply.text) if reply.whole is None else reply.messages[-1].changed(name=step)

    def turn_for(self, step: Step) -> Turn:
        """Return the turn of a step."""
        inputs = [self.message_of(need) for need in self._visible_needs(step)]
        output = partial(self._joined_output, step) if step.needs else None
        step_input = StepInput(step, self._numbers[step.id], self._own_task(step), inputs, output)
        turn = self._hooks.make_turn(step_input)
        return turn if step.id != self._closing else replace(turn, closing=True)

    def _own_task(self, step: Step) -> str | None:
        """Return the task of the step itself, if it has one that can be rendered from the results there are."""
        if step.task is None:
            return None
        try:
            return Template(step.task).render(self._variables(step))
        except ExpressionFailed:
            if self._closes_early(step):
                return None
            raise

    def _closes_early(self, step: Step) -> bool:
        """Return whether this step closes the work, because the budget did not cover a step before it."""
        failures = self.results.failures.values()
        return step.id == self._closing and bool(failures) and all(map(is_unaffordable, failures))

    def scope_for(self, name: str, step: Step, ctx: Context) -> AbstractAsyncContextManager[Context]:
        """Return a scope for a step, with its limits and owned keys."""
        return ctx.scope(name, step.limits, step.owns if self._has_owned_keys else None, self._priority(step))

    async def _queue_ready(self, only: Collection[str] | None, ctx: Context) -> None:
        """Queue the ready steps or skip them, which may make others ready."""
        while not (self.results.is_over or self._is_held) and (ready := self._next_ready(only)) is not None:
            step = self._steps[ready]
            try:
                if (skip := self._skip_reason(step)) is None:
                    self._claims.add(step.id, step.owns, self._priority(step), self._numbers[step.id])
                    continue
                self._skipped.add(step.id)
                await ctx.emit(StepSkipped(step=step.id, reason=skip.reason, because=tuple(skip.because)))
            except ExpressionFailed as error:
                self._fail(step, error)
            self._ready.extend(self._ready_after(step.id))

    def _next_ready(self, only: Collection[str] | None) -> str | None:
        while self._ready:
            step = self._ready.popleft()
            if only is None or step in only:
                return step
            self._deferred.append(step)
        return None

    async def _start_ready(self, limit: int, branches: Branches, ctx: Context) -> None:
        """Start queued steps while there are free slots, and emit an event for those that wait for keys."""
        if self.results.is_over:
            branches.cancel()
            return
        if self._is_held:
            return
        width = ctx.cutback.width(limit)
        while len(self._running) < width and (claim := self._claims.grant_next()) is not None:
            step = self._steps[claim.name]
            self._running[step.id], self.workers[step.id] = claim, self._hooks.assign(step, ctx)
            self._start([step], branches)
        for claim in self._claims.held_up:
            keys, ahead = self._claims.ahead_of(claim)
            by = tuple(one.name for one in ahead[:MOST_NAMED])
            await ctx.emit(StepHeldUp(step=claim.name, keys=tuple(keys), by=by))
        self._claims.held_up.clear()

    def _start(self, steps: Sequence[Step], branches: Branches) -> None:
        """Start these steps, or the prelude that they wait for."""
        for step in () if self.results.is_over else steps:
            worker = self.workers[step.id]
            prelude = self._hooks.prelude(step, worker)
            if prelude is None or prelude.name in self._completed_preludes:
                branches.start(step.id, partial(self._work, step, worker))
            elif prelude.name in self._awaiting_prelude:
                self._awaiting_prelude[prelude.name].append(step)
            else:
                self._awaiting_prelude[prelude.name] = [step]
                branches.start(prelude.name, prelude.work)

    async def _work(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Ask the worker and process its result."""
        make_turn = partial(self.turn_for, step)
        if step.limits is None and not self._has_owned_keys:
            await self.results.run(step.id, worker, make_turn, ctx, self._work_of(step))
        else:
            try:
                async with self.scope_for(SCOPE, step, ctx) as inner:
                    await self.results.run(step.id, worker, make_turn, inner, self._work_of(step))
            except (AgentTimeout, NotOwned) as error:
                self._fail(step, error)
        await self._hooks.after_step(step, worker, ctx)

    def _fail(self, step: Step, error: AgentTimeout | NotOwned | ExpressionFailed) -> None:
        worker = self.workers.get(step.id)
        name = (step.agent or step.id) if worker is None else worker.name
        self.results.fail(step.id, Failure(member=name, error=error.kind, message=str(error)))

    def _priority(self, step: Step) -> int:
        """Return the priority in the queue: the priority of the step first, then its critical-path length."""
        return 0 if self._in_order else step.priority * PRIORITY_WEIGHT + self._path_lengths[step.id]

    def _ready_after(self, settled: str) -> list[str]:
        ready: list[str] = []
        for step in self.graph.dependents[settled]:
            self._unmet[step] -= 1
            if not self._unmet[step]:
                ready.append(step)
        return ready

    def _skip_reason(self, step: Step) -> Skip | None:
        """Return why to skip a step: a need failed, no need has a result, or the condition does not hold; else None."""
        broken = [need for need in step.needs if need in self._after_failure or self.results.is_fatal(need)]
        if broken and not self._closes_early(step):
            self._after_failure.add(step.id)
            return Skip("failure", broken)
        if step.needs and not any(self._visible_needs(step)):
            return Skip("needs", step.needs)
        if step.when is not None and not Condition(step.when).holds(self._variables(step, full=True)):
            return Skip("condition")
        return None

    def _visible_needs(self, step: Step) -> Iterator[str]:
        """Yield the needs that the step sees: those with a result and, with `collect`, those that failed.

        A step that closes early sees the nearest results before it.
        """
        needs = self._nearest_results(step) if self._closes_early(step) else step.needs
        for need in needs:
            if need in self.results.replies or (self._policy.on_failure == "collect" and need in self.results.failures):
                yield need

    def _nearest_results(self, step: Step) -> Iterator[str]:
        """Yield the needs with a result and, for each without one, the nearest results before it; each once."""
        seen, waiting = set[str](), deque(step.needs)
        while waiting:
            need = waiting.popleft()
            if need in seen:
                continue
            seen.add(need)
            if need in self.results.replies:
                yield need
            else:
                waiting.extend(self.graph.needs[need])

    def _joined_output(self, step: Step) -> str:
        """Return the results of the needed steps as a task: the text of the only one, or a JSON object of several."""
        replies, visible = self.results.replies, list(self._visible_needs(step))
        if len(step.needs) == 1 == len(visible):
            return self.message_of(visible[0]).content
        found = {need: result_of(replies[need]) if need in replies else None for need in visible}
        return to_json(found).decode()

    def _variables(self, step: Step, *, full: bool = False) -> Mapping[str, JsonValue]:
        """Return the variables of templates; with `full`, those of conditions, which read replies in full."""
        replies = {need: self.results.replies[need] for need in step.needs if need in self.results.replies}
        if full:
            replies = {need: reply.full for need, reply in replies.items()}
        return {
            "task": self._task.text,
            "outputs": {need: reply.text for need, reply in replies.items()},
            "data": {need: reply.data for need, reply in replies.items() if reply.data is not None},
            "failed": [need for need in step.needs if need in self.results.failures],
        }
