"""Who works on the steps of a plan, and with which turn: the member that a step names, a pool, or one member alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from teamwright.agents.contract.agent import Agent, Context
from teamwright.strategies.parts import part_turn
from teamwright.strategies.plan.graph import StepGraph
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.planner import nodes_of
from teamwright.strategies.plan.step_runner import Prelude, StepInput, StepRunner
from teamwright.strategies.protocol import Members, Task
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import Conversation, Message
from teamwright.values.turns.turn import Turn


class WorkerPool:
    """The workers, `size` of them active: a step goes to the agent it names, or else to the least busy worker.

    Without `members`, the agents that steps name are ignored.
    """

    def __init__(self, workers: Sequence[Agent], size: int, members: Members | None = None) -> None:
        self.size = size
        self._workers, self._members = workers, members
        self._order = {worker.name: place for place, worker in enumerate(workers)}
        self._running: Counter[str] = Counter()
        self._assigned: Counter[str] = Counter()

    def active(self, ctx: Context) -> Sequence[Agent]:
        """Return the workers that currently take steps without a named agent."""
        return self._workers[: ctx.cutback.width(self.size)]

    def acquire(self, step: Step, ctx: Context) -> Agent:
        """Assign a worker to a step that starts now."""
        if self._members is not None and (step.agent is not None or step.id in self._members.names):
            worker = self._members.named(step.agent or step.id)
        else:
            worker = min(self.active(ctx), key=self._load)
        self._running[worker.name] += 1
        self._assigned[worker.name] += 1
        return worker

    def release(self, worker: Agent) -> None:
        """Mark the step of a worker as finished."""
        self._running[worker.name] -= 1

    def _load(self, worker: Agent) -> tuple[int, int, int]:
        return self._running[worker.name], self._assigned[worker.name], self._order[worker.name]


class Workers:
    """Assigns each step to the agent it names, or else to the member of its name or, with a pool, to the least busy."""

    def __init__(self, task: Task, members: Members, pool: WorkerPool | None = None) -> None:
        self._task, self._members, self._pool = task, members, pool

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the agent of a step that starts now."""
        return self._members.named(step.agent or step.id) if self._pool is None else self._pool.acquire(step, ctx)

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return a turn with the results of the needed steps and the task."""
        return part_turn(
            self._task, step_input.number, step_input.inputs, step_input.output, own_task=step_input.own_task
        )

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return None: steps start at once."""

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Count the step of a pool's worker as ended."""
        if self._pool is not None:
            self._pool.release(worker)


class OneConversation:
    """One member works through the whole plan in one conversation: earlier steps and results precede each step."""

    def __init__(self, task: Task, options: PlanOptions, members: Members) -> None:
        last = StepGraph.from_nodes(nodes_of(options.steps)).order[-1] if len(options.steps) > 1 else None
        self.runner = StepRunner(task, options.steps, options, self, in_order=True, closing=last)
        self._task, self._worker = task, options.workers_of(members)[0]
        self._conversation = Conversation()
        self._conversation.extend(task.history)
        self._has_team_task = False
        self._last_task = task.text
        self._unsent_files = self._last_files = task.attachments
        """The files of the task until they are in the conversation, and those of the last turn."""

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the one worker."""
        return self._worker

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return a turn with the earlier steps and results, then the task of the step or else of the team."""
        if self._task.settings.share == "output":
            return part_turn(
                self._task, step_input.number, step_input.inputs, step_input.output, own_task=step_input.own_task
            )
        if step_input.own_task is not None and not self._has_team_task:
            self._conversation.append(self._task.message)
            self._unsent_files = ()
        self._has_team_task = True
        self._last_task = self._task.text if step_input.own_task is None else step_input.own_task
        self._last_files = self._unsent_files if step_input.own_task is None else ()
        history = self._conversation.history()
        return Turn(self._last_task, history, step_input.number, attachments=self._last_files)

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return None: steps start at once."""

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Add the step to the conversation, unless it failed."""
        if reply := self.runner.results.replies.get(step.id):
            said = Message(name="user", content=self._last_task, role="user", attachments=self._last_files)
            self._conversation.append(said)
            self._conversation.extend(reply.messages)
            if self._last_files:
                self._unsent_files = ()
