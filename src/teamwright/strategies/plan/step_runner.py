"""The way of work through steps: what has become free, what each step is told, what came of it, what was skipped.

A step waits for what it needs, for keys that others own and for room, and for nothing else: there are no waves. Of
those that could begin, the one with the longest way behind it goes first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Literal, NamedTuple, Protocol

from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.agents.context import Branches, Context
from teamwright.agents.protocol import Agent
from teamwright.errors import AgentTimeout, ExpressionFailed, NotOwned
from teamwright.planning.critical_path import ways_behind
from teamwright.planning.graph import StepGraph
from teamwright.planning.lock_table import Claim, Claims
from teamwright.planning.schedule.planner import nodes_of
from teamwright.strategies.expressions.condition import Condition
from teamwright.strategies.expressions.template import Template
from teamwright.strategies.parallel.parts import FailurePolicy, Parts, result_of
from teamwright.strategies.protocol import Task
from teamwright.values.events.step import StepHeldUp, StepSkipped
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Turn

KNOWN = ("task", "outputs", "data", "failed")
"""What templates and conditions of a step may ask about: the team's task, and the steps it needs by their ids."""

FAILED = "This step failed: there is no result of it."

SCOPE = "step"
"""The scope of a step that owns something or has limits, within the branch that bears the step's id."""

ABOVE_ANY_WAY = 1 << 40
"""What one point of a step's own priority counts, in tokens of the way behind it."""

MOST_NAMED = 5


class Skip(NamedTuple):
    """Why a step is not worked on, and because of which of its needs."""

    reason: Literal["condition", "needs", "failure"]
    because: Sequence[str] = ()


class StepInput(NamedTuple):
    """A step whose turn is to be made: its number, its own task if it has one, and what the steps it needs came to.

    `output` is that as one text, where it needs any.
    """

    step: Step
    number: int
    own: str | None
    inputs: Sequence[Message]
    output: Callable[[], str] | None


class Opening(NamedTuple):
    """What has to come before the work on steps, in a branch of this name; several may wait for the same.

    Where it ends the work, it says so by `parts.over`.
    """

    name: str
    work: Callable[[Context], Awaitable[None]]


class StepHooks(Protocol):
    """Who works on the steps, what they are told, and what is said around their work."""

    def worker(self, step: Step, ctx: Context) -> Agent:
        """Who works on a step that begins now."""
        ...

    def turn(self, part: StepInput) -> Turn:
        """What a step is told."""
        ...

    def opening(self, step: Step, worker: Agent) -> Opening | None:
        """What has to come before the work on a step, if anything."""
        ...

    async def after(self, step: Step, worker: Agent, ctx: Context) -> None:
        """What comes after the work on a step, before anybody builds on it."""
        ...


class Flow:
    """One way through the steps; `in_order` they begin in topological order, whatever lies behind them."""

    def __init__(
        self, task: Task, steps: Sequence[Step], policy: FailurePolicy, crew: StepHooks, *, in_order: bool = False
    ) -> None:
        self.graph = StepGraph.of(nodes_of(steps))
        self.parts = Parts(policy)
        self.workers: dict[str, Agent] = {}
        self._task, self._policy, self._crew, self._in_order = task, policy, crew, in_order
        self._steps = {step.id: step for step in steps}
        self._open_needs = {step.id: len(step.needs) for step in steps}
        self._free = deque(step for step in self.graph.order if not self._open_needs[step])
        self._numbers = {step: number for number, step in enumerate(self.graph.order, start=1)}
        self._behind_a_failure: set[str] = set()
        self._ways = ways_behind(self.graph, steps)
        self._owned = any(step.owns for step in steps)
        self._claims = Claims()
        self._at_work: dict[str, Claim] = {}
        self._opened: set[str] = set()
        self._waiting: dict[str, list[Step]] = {}

    async def run(self, limit: int, ctx: Context, only: Collection[str] | None = None) -> None:
        """Start each step when the last of its needs is settled, at most `limit` at once, and see all to their end.

        With `only`, these steps and no others; the rest can be run later.
        """
        async with ctx.branches(limit) as branches:
            await self._queue(only, ctx)
            await self._begin(limit, branches, ctx)
            async for branch in branches.finished():
                if branch.name in self._waiting:
                    self._opened.add(branch.name)
                    self._start(self._waiting.pop(branch.name), branches)
                else:
                    self._claims.end(self._at_work.pop(branch.name))
                    self._free.extend(self._freed_by(branch.name))
                await self._queue(only, ctx)
                await self._begin(limit, branches, ctx)

    def data(self, answer: str | None) -> JsonValue:
        """The data of the step that gives the answer; where several steps end the work, what each of them came to."""
        replies, ends = self.parts.replies, self.ends
        if answer in replies:
            return replies[answer].full.data
        if len(ends) == 1:
            return replies[ends[0]].full.data
        return {step: result_of(replies[step]) for step in ends} or None

    @property
    def ends(self) -> list[str]:
        """The steps that came to something and that no other such step builds on."""
        replies, dependents = self.parts.replies, self.graph.dependents
        return [step for step in self.graph.order if step in replies and replies.keys().isdisjoint(dependents[step])]

    def number(self, step: str) -> int:
        """The place of a step in topological order, from 1."""
        return self._numbers[step]

    def message(self, step: str) -> Message:
        """What a step came to, under its id; of a failed one nothing but that it failed."""
        reply = self.parts.replies.get(step)
        if reply is None:
            return Message(name=step, content=FAILED, role="user")
        return Message(name=step, content=reply.text) if reply.whole is None else reply.messages[-1].changed(name=step)

    def turn(self, step: Step) -> Turn:
        """What a step is told."""
        own = None if step.task is None else Template(step.task).render(self._names(step))
        inputs = [self.message(need) for need in self._inputs(step)]
        output = partial(self._joined, step) if step.needs else None
        return self._crew.turn(StepInput(step, self._numbers[step.id], own, inputs, output))

    def scope(self, name: str, step: Step, ctx: Context) -> AbstractAsyncContextManager[Context]:
        """A scope for work on a step, with its limits, that owns what the step owns and no more."""
        return ctx.scope(name, step.limits, step.owns if self._owned else None, self._priority(step))

    async def _queue(self, only: Collection[str] | None, ctx: Context) -> None:
        """Queue the steps that are free, or skip them, which may set others free."""
        while not self.parts.over and (free := self._next_free(only)) is not None:
            step = self._steps[free]
            try:
                if (skip := self._skip(step)) is None:
                    self._claims.add(step.id, step.owns, self._priority(step), self._numbers[step.id])
                    continue
                await ctx.emit(StepSkipped(step=step.id, reason=skip.reason, because=tuple(skip.because)))
            except ExpressionFailed as error:
                self._fail(step, error)
            self._free.extend(self._freed_by(step.id))

    def _next_free(self, only: Collection[str] | None) -> str | None:
        if only is None:
            return self._free.popleft() if self._free else None
        found = next((step for step in self._free if step in only), None)
        if found is not None:
            self._free.remove(found)
        return found

    async def _begin(self, limit: int, branches: Branches, ctx: Context) -> None:
        """Start those that may go, as many as there is room for, and tell who has to wait for keys."""
        if self.parts.over:
            branches.cancel()
            return
        width = ctx.posture.width(limit)
        while len(self._at_work) < width and (claim := self._claims.next()) is not None:
            step = self._steps[claim.name]
            self._at_work[step.id], self.workers[step.id] = claim, self._crew.worker(step, ctx)
            self._start([step], branches)
        for claim in self._claims.held_up:
            keys, ahead = self._claims.ahead_of(claim)
            by = tuple(one.name for one in ahead[:MOST_NAMED])
            await ctx.emit(StepHeldUp(step=claim.name, keys=tuple(keys), by=by))
        self._claims.held_up.clear()

    def _start(self, steps: Sequence[Step], branches: Branches) -> None:
        """Start these steps, or first what has to come before them."""
        for step in () if self.parts.over else steps:
            worker = self.workers[step.id]
            opening = self._crew.opening(step, worker)
            if opening is None or opening.name in self._opened:
                branches.start(step.id, partial(self._work, step, worker))
            elif opening.name in self._waiting:
                self._waiting[opening.name].append(step)
            else:
                self._waiting[opening.name] = [step]
                branches.start(opening.name, opening.work)

    async def _work(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Let a member work on a step."""
        turn = partial(self.turn, step)
        if step.limits is None and not self._owned:
            await self.parts.work(step.id, worker, turn, ctx)
        else:
            try:
                async with self.scope(SCOPE, step, ctx) as inner:
                    await self.parts.work(step.id, worker, turn, inner)
            except (AgentTimeout, NotOwned) as error:
                self._fail(step, error)
        await self._crew.after(step, worker, ctx)

    def _fail(self, step: Step, error: AgentTimeout | NotOwned | ExpressionFailed) -> None:
        worker = self.workers.get(step.id)
        name = (step.agent or step.id) if worker is None else worker.name
        self.parts.fail(step.id, Failure(member=name, error=error.kind, message=str(error)))

    def _priority(self, step: Step) -> int:
        """Its own priority counts before any length of the way that is left."""
        return 0 if self._in_order else step.priority * ABOVE_ANY_WAY + self._ways[step.id]

    def _freed_by(self, settled: str) -> list[str]:
        free: list[str] = []
        for step in self.graph.dependents[settled]:
            self._open_needs[step] -= 1
            if not self._open_needs[step]:
                free.append(step)
        return free

    def _skip(self, step: Step) -> Skip | None:
        """Why a step is skipped, if it is: one of its needs must have come to something, its condition must hold."""
        broken = [need for need in step.needs if need in self._behind_a_failure or self.parts.is_fatal(need)]
        if broken:
            self._behind_a_failure.add(step.id)
            return Skip("failure", broken)
        if step.needs and not any(self._inputs(step)):
            return Skip("needs", step.needs)
        if step.when is not None and not Condition(step.when).holds(self._names(step, in_full=True)):
            return Skip("condition")
        return None

    def _inputs(self, step: Step) -> Iterator[str]:
        """The steps it needs that it can be told of: those that came to something, and collected failures."""
        for need in step.needs:
            if need in self.parts.replies or (self._policy.on_failure == "collect" and need in self.parts.failures):
                yield need

    def _joined(self, step: Step) -> str:
        """What the steps it needs came to, as its task: the text of the one, or of several a JSON object."""
        replies = self.parts.replies
        if len(step.needs) == 1:
            return self.message(step.needs[0]).content
        found = {need: result_of(replies[need]) if need in replies else None for need in self._inputs(step)}
        return to_json(found).decode()

    def _names(self, step: Step, *, in_full: bool = False) -> Mapping[str, JsonValue]:
        """What may be asked about its needs: what others are told of them or, for conditions, what was said in full."""
        replies = {need: self.parts.replies[need] for need in step.needs if need in self.parts.replies}
        if in_full:
            replies = {need: reply.full for need, reply in replies.items()}
        return {
            "task": self._task.text,
            "outputs": {need: reply.text for need, reply in replies.items()},
            "data": {need: reply.data for need, reply in replies.items() if reply.data is not None},
            "failed": [need for need in step.needs if need in self.parts.failures],
        }
