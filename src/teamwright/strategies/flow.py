"""The way of work through steps: what has become free, what each step is told, what came of it, what was skipped.

A step waits for what it needs and for nothing else: there are no waves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from pydantic import Field, JsonValue
from pydantic_core import to_json

from teamwright.agents.protocol import Branches, Context
from teamwright.errors import ExpressionFailed
from teamwright.planning.graph import Graph, Node
from teamwright.strategies.conditions import Condition
from teamwright.strategies.parts import FailurePolicy, Parts, part_turn, result_of
from teamwright.strategies.protocol import Members, Task
from teamwright.strategies.templates import Template
from teamwright.values.events import StepSkipped
from teamwright.values.frozen import Value
from teamwright.values.messages import Message
from teamwright.values.specs import MemberName, Name
from teamwright.values.turns import Failure, Turn

KNOWN = ("task", "outputs", "data", "failed")
"""What templates and conditions of a step may ask about: the team's task, and the steps it needs by their ids."""

FAILED = "This step failed: there is no result of it."


class Step(Value):
    """One step: who does what, after what, and when at all."""

    id: Name = Field(description="its name, under which its output reaches the steps that need it")
    agent: MemberName | None = Field(default=None, description="who works on it; else the member named like the step")
    needs: tuple[str, ...] = Field(default=(), description="ids of the steps whose output it works on")
    task: str | None = Field(default=None, description="what to do, as a template; else the task of the team")
    when: str | None = Field(default=None, description="a condition; where it does not hold, the step is skipped")


class Skip(NamedTuple):
    """Why a step is not worked on, and because of which of its needs."""

    reason: Literal["condition", "needs", "failure"]
    because: Sequence[str] = ()


def nodes_of(steps: Sequence[Step]) -> list[Node]:
    """The steps as far as their places go."""
    return [Node(step.id, step.needs) for step in steps]


class Flow:
    """One way through the steps."""

    def __init__(self, task: Task, steps: Sequence[Step], policy: FailurePolicy, members: Members) -> None:
        self.graph = Graph.of(nodes_of(steps))
        self.parts = Parts(policy)
        self._task, self._policy, self._members = task, policy, members
        self._steps = {step.id: step for step in steps}
        self._open_needs = {step.id: len(step.needs) for step in steps}
        self._numbers = {step: number for number, step in enumerate(self.graph.order, start=1)}
        self._behind_a_failure: set[str] = set()

    async def run(self, limit: int, ctx: Context) -> None:
        """Start each step when the last of its needs is settled, at most `limit` at once, and see all to their end."""
        async with ctx.branches(limit) as branches:
            await self._begin([step for step in self.graph.order if not self._open_needs[step]], branches, ctx)
            async for branch in branches.finished():
                await self._begin(self._freed_by(branch.name), branches, ctx)

    def data(self, answer: str | None) -> JsonValue:
        """The data of the step that gives the answer; where several steps end the work, what each of them came to."""
        replies, dependents = self.parts.replies, self.graph.dependents
        if answer in replies:
            return replies[answer].data
        ends = [step for step in self.graph.order if step in replies and replies.keys().isdisjoint(dependents[step])]
        return replies[ends[0]].data if len(ends) == 1 else {step: result_of(replies[step]) for step in ends} or None

    async def _begin(self, free: Sequence[str], branches: Branches, ctx: Context) -> None:
        """Start these steps, or skip them, which may set others free."""
        queue = deque(free)
        while queue and not self.parts.over:
            step = self._steps[queue.popleft()]
            member = self._members.named(step.agent or step.id)
            try:
                if (skip := self._skip(step)) is None:
                    branches.start(step.id, partial(self.parts.work, step.id, member, partial(self._turn, step)))
                    continue
                await ctx.emit(StepSkipped(step=step.id, reason=skip.reason, because=tuple(skip.because)))
            except ExpressionFailed as error:
                self.parts.fail(step.id, Failure(member=member.name, error=error.kind, message=str(error)))
            queue.extend(self._freed_by(step.id))
        if self.parts.over:
            branches.cancel()

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
        if step.when is not None and not Condition(step.when).holds(self._names(step)):
            return Skip("condition")
        return None

    def _inputs(self, step: Step) -> Iterator[str]:
        """The steps it needs that it can be told of: those that came to something, and collected failures."""
        for need in step.needs:
            if need in self.parts.replies or (self._policy.on_failure == "collect" and need in self.parts.failures):
                yield need

    def _turn(self, step: Step) -> Turn:
        """What a step is told."""
        own = None if step.task is None else Template(step.task).render(self._names(step))
        before = [self._message(need) for need in self._inputs(step)]
        output = partial(self._joined, step) if step.needs else None
        return part_turn(self._task, self._numbers[step.id], before, output, own=own)

    def _message(self, need: str) -> Message:
        reply = self.parts.replies.get(need)
        return Message(name=need, content=reply.text) if reply else Message(name=need, content=FAILED, role="user")

    def _joined(self, step: Step) -> str:
        """What the steps it needs came to, as its task: the text of the one, or of several a JSON object."""
        replies = self.parts.replies
        if len(step.needs) == 1:
            return self._message(step.needs[0]).content
        found = {need: result_of(replies[need]) if need in replies else None for need in self._inputs(step)}
        return to_json(found).decode()

    def _names(self, step: Step) -> Mapping[str, JsonValue]:
        replies = {need: self.parts.replies[need] for need in step.needs if need in self.parts.replies}
        return {
            "task": self._task.text,
            "outputs": {need: reply.text for need, reply in replies.items()},
            "data": {need: reply.data for need, reply in replies.items() if reply.data is not None},
            "failed": [need for need in step.needs if need in self.parts.failures],
        }
