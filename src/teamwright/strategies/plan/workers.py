"""Who works on the steps of a plan, and with which turn: the member that a step names, a pool, or one member alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.part_results import part_turn
from teamwright.strategies.plan.bound_roles import has_capability
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.step_outputs import StepInput
from teamwright.strategies.plan.steps.step_runner import Prelude, StepRunner
from teamwright.strategies.plan.steps.step_work import StepAssignment, Work
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import Conversation, History, Message
from teamwright.values.turns.turn import Failure, Turn


class WorkerPool:
    """The workers, `size` of them active: a step goes to the agent that it is bound to, or to the least busy worker."""

    def __init__(self, workers: Sequence[Agent], size: int) -> None:
        self.size = size
        self._running: Counter[str] = Counter()
        self._assigned: Counter[str] = Counter()
        self.set_workers(workers)

    def set_workers(self, workers: Sequence[Agent]) -> None:
        """Continue with these workers."""
        self._workers = workers
        self._order = {worker.name: place for place, worker in enumerate(workers)}

    def active(self, ctx: Context) -> Sequence[Agent]:
        """Return the workers that currently take steps without a named agent."""
        return self._workers[: ctx.cutback.width(self.size)]

    def acquire(self, ctx: Context, bound: Agent | None = None) -> Agent:
        """Assign a worker to a step that starts now: the one that it is bound to, if any."""
        return self._count(min(self.active(ctx), key=self._load) if bound is None else bound)

    def exchange(self, failed: Agent, assignment: StepAssignment) -> Agent:
        """Return the least busy other worker that can have the role of a step; the same one if there is no other.

        None of its judges takes it over.
        """
        able = (one for one in self._workers if one.name != failed.name and has_capability(one, assignment.role))
        others = [one for one in able if assignment.may_write(one)]
        if not others:
            return failed
        self.release(failed)
        return self._count(min(others, key=self._load))

    def release(self, worker: Agent) -> None:
        """Mark the step of a worker as finished."""
        self._running[worker.name] -= 1

    def _count(self, worker: Agent) -> Agent:
        self._running[worker.name] += 1
        self._assigned[worker.name] += 1
        return worker

    def _load(self, worker: Agent) -> tuple[int, int, int]:
        return self._running[worker.name], self._assigned[worker.name], self._order.get(worker.name, 0)


class Floor:
    """What the steps of a plan see, and what happens around them. This one: the results that they need, and notices.

    Others let the lead hand steps out, or all read one conversation.
    """

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context) -> None:
        self._state, self._task, self._runner, self._ctx = state, state.task, runner, ctx

    async def run(self, width: int, ctx: Context) -> None:
        """Run the steps that can run."""
        await self._runner.run(width, ctx)

    def set_steps(self, steps: Sequence[Step]) -> None:
        """Continue with these steps."""

    def place_of(self, step: Step) -> str:
        """Return the branch that a step starts first."""
        return step.id

    def context(self, step: Step, member: str) -> Iterable[Message]:
        """Return what a member reads before the results that its step needs, besides notices about the plan."""
        return ()

    def make_turn(self, step_input: StepInput, member: str) -> Turn:
        """Return the turn of a member for a step."""
        step, number, own_task, inputs, output = step_input
        context = (*self._state.notices_for(member), *self.context(step, member))
        if not context:
            return part_turn(self._task, number, inputs, output, own_task=own_task)
        if output is not None and own_task is None and self._task.settings.share == "output":
            return Turn(output(), History.of(context), number)
        return part_turn(self._task, number, (*context, *inputs), output, own_task=own_task)

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return None: steps start at once."""

    async def work(
        self, assignment: StepAssignment, member: Agent, turn: Turn, key: str, ctx: Context, task: str | None = None
    ) -> Work | Failure:
        """Ask a member for work on a step, or on a part of it with a `task` of its own."""
        reply = await ctx.ask(member, turn, key=key)
        return reply if isinstance(reply, Failure) else Work(member, turn, key, reply)

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Do nothing."""


class OneConversation(Floor):
    """All steps are one conversation: earlier steps and their results precede each step."""

    def __init__(self, state: PlanState, runner: StepRunner, ctx: Context) -> None:
        super().__init__(state, runner, ctx)
        task = state.task
        self._conversation = Conversation()
        self._conversation.extend(task.history)
        self._has_team_task = False
        self._last_task = task.text
        self._unsent_files = self._last_files = task.attachments
        """The files of the task until they are in the conversation, and those of the last turn."""

    def make_turn(self, step_input: StepInput, member: str) -> Turn:
        """Return a turn with the earlier steps and results, then the task of the step or else of the team."""
        if self._task.settings.share == "output":
            return super().make_turn(step_input, member)
        if step_input.own_task is not None and not self._has_team_task:
            self._conversation.append(self._task.message)
            self._unsent_files = ()
        self._has_team_task = True
        self._last_task = self._task.text if step_input.own_task is None else step_input.own_task
        self._last_files = self._unsent_files if step_input.own_task is None else ()
        history = self._conversation.history()
        if notices := self._state.notices_for(member):
            history = History.of((*history, *notices))
        return Turn(self._last_task, history, step_input.number, attachments=self._last_files)

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Add the step to the conversation, unless it failed."""
        if reply := self._state.results.replies.get(step.id):
            said = Message(name="user", content=self._last_task, role="user", attachments=self._last_files)
            self._conversation.append(said)
            self._conversation.extend(reply.messages)
            if self._last_files:
                self._unsent_files = ()
