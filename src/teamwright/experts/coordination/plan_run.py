"""A plan in execution: who works on which step, the state of each, and the outcome of the team.

A plan ends when its steps have ended, or with its time; no member can declare it done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from teamwright.agents.contract.agent import Agent, Context
from teamwright.errors import AgentTimeout
from teamwright.experts.coordination.bound_plan import BoundPlan
from teamwright.experts.coordination.options import PlanOptions
from teamwright.experts.coordination.planner import MadePlan
from teamwright.experts.coordination.replan import Progress, Replanner
from teamwright.experts.coordination.step_board import StepBoard, with_role
from teamwright.experts.coordination.step_work import StepAssignment
from teamwright.strategies.parts import FailurePolicy, part_turn
from teamwright.strategies.plan.planner import PlannerSettings, make_schedule
from teamwright.strategies.plan.step_options import closing_step
from teamwright.strategies.plan.step_outputs import StepInput
from teamwright.strategies.plan.step_runner import Prelude, StepRunner
from teamwright.strategies.protocol import Task
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.events.team import TeamPlanned
from teamwright.values.limits import Limits
from teamwright.values.specs.plan import Plan, Step
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn

SCOPE = "plan"
"""The scope of everything that a coordinator asks for, within which its timeout applies."""
KEEP_GOING = FailurePolicy.model_construct()
"""A failed step that is not optional fails the team once it has ended; the ladder says when that is at once."""


class Pool(Protocol):
    """Who works on steps."""

    def acquire(self, step: Step, ctx: Context) -> Agent:
        """Return the agent of a step that starts now."""
        ...

    def exchange(self, step: Step, failed: Agent) -> Agent:
        """Return who tries a step again after this agent has failed."""
        ...

    def release(self, agent: Agent) -> None:
        """Note that an agent has ended a step."""
        ...


class PlanRun:
    """One execution of a plan."""

    def __init__(
        self,
        task: Task,
        options: PlanOptions,
        plan: MadePlan,
        assignments: Mapping[str, StepAssignment],
        pool: Pool,
    ) -> None:
        self._task, self._options, self._plan, self._pool = task, options, plan, pool
        self._assignments = assignments
        self._replanner: Replanner | None = None
        self._terminated: Reply | None = None
        self._earlier: set[str] = set()
        """Steps that had ended when the planner planned again; the answer is among those after them."""
        closing = closing_step(plan.steps, options.answer)
        self._runner = StepRunner(task, self._runnable(plan), KEEP_GOING, self, closing=closing)
        self._runner.work_by(self._work)
        self._board = StepBoard(self._runner.results, options, plan.steps)

    def _runnable(self, plan: MadePlan) -> list[Step]:
        """Return the steps as the runner gets them: limits stand inside the ladder, plain tasks are no templates."""
        changes: dict[str, object] = {"limits": None, **({"task": None} if plan.literal else {})}
        return [step.model_copy(update=changes) for step in plan.steps]

    async def run(self, ctx: Context) -> None:
        """Execute the steps as their dependencies and the width of the team allow, and plan again after failures."""
        await self._runner.run(self._options.max_parallel, ctx)
        while self._board.lost and self._terminated is None:
            bound = await self._plan_again(ctx)
            if isinstance(bound, BoundPlan):
                await self._replace(bound, ctx)
            elif isinstance(bound, Reply):
                self._terminated, self._runner.results.is_over = bound, True
            else:
                await self._board.give_up(ctx)
            await self._runner.run(self._options.max_parallel, ctx)

    def replan_by(self, replanner: Replanner) -> None:
        """Let a planner plan again after failures."""
        self._replanner, self._board.can_replan = replanner, replanner.can_plan_again

    async def _plan_again(self, ctx: Context) -> BoundPlan | Reply | None:
        """Return what the planner makes of the failures; None if the team is over or there is no other plan."""
        results, lost = self._runner.results, self._board.lost
        if self._replanner is None or results.is_over:
            return None
        steps, open_ = self._plan.steps, self._runner.open_steps
        progress = Progress(
            ended=tuple(step for step in steps if step.id not in lost and step.id not in open_),
            lost=tuple(step for step in steps if step.id in lost),
            open=tuple(step for step in steps if step.id in open_),
            results=tuple(self._runner.outputs.message_of(step.id) for step in steps if step.id in results.replies),
        )
        bound = await self._replanner.plan_again(progress, ctx)
        self._board.can_replan = self._replanner.can_plan_again
        return bound

    async def _replace(self, bound: BoundPlan, ctx: Context) -> None:
        """Continue with another plan."""
        self._earlier = self._runner.graph.needs.keys() - self._runner.open_steps
        self._plan, self._assignments, self._pool = bound.plan, bound.assignments, bound.agents
        await self._board.replace(bound.plan.steps, ctx)
        self._runner.replace_steps(self._runnable(bound.plan), closing_step(bound.plan.steps, self._options.answer))

    async def announce(self, topology: str, ctx: Context) -> None:
        """Record how the plan is executed."""
        settings = PlannerSettings(max_parallel=self._options.max_parallel)
        schedule = make_schedule(Plan(steps=self._plan.steps), settings)
        await ctx.emit(
            TeamPlanned(
                topology=topology,
                steps=len(self._plan.steps),
                rounds=len(schedule.batches),
                width=max((len(batch.tasks) for batch in schedule.batches), default=1),
                reason=self._plan.reason,
            )
        )

    async def finish(self, ctx: Context, *, timed_out: bool = False) -> Outcome:
        """Settle steps that did not end, and return the outcome of the team."""
        await self._board.settle(ctx, timed_out=timed_out)
        return self._outcome(timed_out=timed_out)

    def _outcome(self, *, timed_out: bool) -> Outcome:
        talk, results, answer = TeamConversation(self._task), self._runner.results, self._options.answer
        talk.warnings += (*self._plan.warnings, *self._board.warnings)
        order = sorted(self._runner.graph.order, key=lambda step: step not in self._earlier)
        if answer in results.replies:
            order = [*(step for step in order if step != answer), answer]
        ended = results.finish(talk, order, closes=self._runner.outputs.has_closed)
        if self._terminated is not None:
            talk.add(self._terminated)
            return talk.ended("terminated").changed(status="completed")
        if timed_out:
            ended = talk.failed(self._board.timeout_failure())
        elif ended is None:
            if not results.replies:
                talk.warnings.append("every step was skipped")
            elif answer is not None and answer not in results.replies:
                talk.warnings.append(f"the step {answer!r}, which gives the answer, was skipped")
            ended = talk.ended("done").changed(data=self._runner.outputs.answer_data(answer))
        return self._board.with_status(ended)

    async def _work(self, step: Step, ctx: Context, agent: Agent, turn: Turn) -> Reply | Failure:
        exchange = partial(self._pool.exchange, step)
        ending = await self._board.work(self._assignments[step.id], agent, turn, ctx, exchange)
        if step.id in self._board.lost:
            self._runner.hold_after(step.id)
        return ending

    def assign(self, step: Step, ctx: Context) -> Agent:
        """Return the agent of a step that starts now."""
        return self._pool.acquire(step, ctx)

    def make_turn(self, step_input: StepInput) -> Turn:
        """Return a turn with the results of the needed steps, what the role says, and the task."""
        assignment = self._assignments[step_input.step.id]
        own_task = assignment.step.task if self._plan.literal else step_input.own_task
        turn = part_turn(self._task, step_input.number, step_input.inputs, step_input.output, own_task=own_task)
        return with_role(turn, assignment)

    def prelude(self, step: Step, worker: Agent) -> Prelude | None:
        """Return None: steps start at once."""

    async def after_step(self, step: Step, worker: Agent, ctx: Context) -> None:
        """Release the agent of the step."""
        self._pool.release(self._board.workers.get(step.id, worker))


class TimedRun(Protocol):
    """A run of a coordinator that can be stopped by its timeout at any point."""

    async def run(self, ctx: Context) -> Outcome | None:
        """Do the work; return an outcome where it ends early."""
        ...

    async def finish(self, ctx: Context, *, timed_out: bool) -> Outcome:
        """Return the outcome of the work that was done."""
        ...


async def run_within(seconds: float, work: TimedRun, ctx: Context) -> Outcome:
    """Do the work within this time; what is in flight when it ends is cancelled, and the rest is the outcome.

    Time in which everything waits for people or providers does not count.
    """
    try:
        async with ctx.scope(SCOPE, Limits(seconds=seconds), working=True) as inner:
            ended = await work.run(inner)
    except AgentTimeout:
        return await work.finish(ctx, timed_out=True)
    return ended if ended is not None else await work.finish(ctx, timed_out=False)


def planning_outcome(failure: Failure, warnings: Sequence[str] = ()) -> Outcome:
    """Return the outcome of a team that ended before it had a plan."""
    is_timeout = failure.error == "deadline"
    return Outcome(
        stop_reason="deadline" if is_timeout else "planning",
        failure=failure,
        warnings=tuple(warnings),
        status="timeout" if is_timeout else "failed",
    )
