"""The dispatch strategy: a pool of members works on the steps of a plan; what fails is tried again, then skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from teamwright.agents.contract.agent import Agent, Context
from teamwright.errors import nearest
from teamwright.experts.coordination.bound_plan import evaluator_of_step, own_judge_flaws, risk_flaws
from teamwright.experts.coordination.bound_roles import NO_ROLE
from teamwright.experts.coordination.options import DispatchOptions, FailureLadder
from teamwright.experts.coordination.plan_run import SCOPE, PlanRun, run_within
from teamwright.experts.coordination.planner import MadePlan
from teamwright.experts.coordination.step_work import StepAssignment
from teamwright.strategies.parts import WORK
from teamwright.strategies.plan.step_options import closing_step, plan_flaws, template_flaws
from teamwright.strategies.protocol import (
    Arrow,
    ClosingAsk,
    Diagram,
    ExpectedAsks,
    Issue,
    Members,
    Node,
    Settings,
    Strategy,
    Task,
    places,
)
from teamwright.values.specs.plan import Step
from teamwright.values.turns.results import Outcome


class Dispatch(Strategy):
    """Each step goes to the least busy member, or the one that it names; a retry goes to another member."""

    name = "dispatch"
    version = 1
    options = DispatchOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check the plan, its evaluation and the risk."""
        options = settings.read(DispatchOptions)
        found = [
            *plan_flaws(options.steps),
            *template_flaws(options.steps),
            *_roles(options),
            *risk_flaws(options, options.steps),
            *own_judge_flaws(options, options.steps, _authors(options, members)),
        ]
        if options.answer is not None and options.answer not in (ids := {step.id for step in options.steps}):
            found.append(Issue(f"there is no step {options.answer!r}; {nearest(options.answer, ids)}", ("answer",)))
        return found

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each step."""
        steps = settings.read(DispatchOptions).steps
        return {f"{SCOPE}/{step.id}/{WORK}": step.execution_tokens + step.coordination_tokens for step in steps}

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the step that gives the answer, if there is one; any member may work on it."""
        options = settings.read(DispatchOptions)
        closer = closing_step(options.steps, options.answer)
        step = next((one for one in options.steps if one.id == closer), None)
        return () if step is None else [ClosingAsk(step.agent or members[0].name, len(step.needs))]

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the steps, and the pool that works on them."""
        options, pool = settings.read(DispatchOptions), places(members)
        steps = Node(id="steps", label=f"{len(options.steps)} steps")
        arrows = tuple(Arrow(source=steps.id, to=node.id) for node in pool)
        notes = (f"{options.risk} risk", f"{options.max_parallel} at once", options.time_note)
        return Diagram(nodes=(steps, *pool), arrows=arrows, notes=notes)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Let the pool work through the steps, within the timeout."""
        options = task.settings.read(DispatchOptions)
        return await run_within(options.timeout, DispatchRun(task, options, members), ctx)


class DispatchRun:
    """One run of the strategy."""

    def __init__(self, task: Task, options: DispatchOptions, members: Members) -> None:
        ladder = FailureLadder(retry=options.retry, downgrade_model=False, skip_step=True)
        assignments = {
            step.id: StepAssignment(step, "", NO_ROLE, evaluator_of_step(step, options, members), ladder)
            for step in options.steps
        }
        self._plan_run = PlanRun(task, options, MadePlan(options.steps), assignments, MemberPool(members))

    async def run(self, ctx: Context) -> None:
        """Execute the steps."""
        await self._plan_run.announce(Dispatch.name, ctx)
        await self._plan_run.run(ctx)

    async def finish(self, ctx: Context, *, timed_out: bool) -> Outcome:
        """Return the outcome of the steps."""
        return await self._plan_run.finish(ctx, timed_out=timed_out)


class MemberPool:
    """The members and how many steps each works on now; among equals, the first in the order of the team."""

    def __init__(self, members: Members) -> None:
        self._members = {one.name: one for one in members}
        self._busy = Counter[str]()

    def acquire(self, step: Step, ctx: Context) -> Agent:
        """Return the agent that the step names, or else the least busy one."""
        agent = self._members[step.agent] if step.agent is not None else self._least_busy(self._members)
        self._busy[agent.name] += 1
        return agent

    def exchange(self, step: Step, failed: Agent) -> Agent:
        """Return the least busy other member; the same one if there is no other or the step names it."""
        others = {name: one for name, one in self._members.items() if name != failed.name}
        if step.agent is not None or not others:
            return failed
        self._busy[failed.name] -= 1
        agent = self._least_busy(others)
        self._busy[agent.name] += 1
        return agent

    def release(self, agent: Agent) -> None:
        """Count a step of this member as ended."""
        self._busy[agent.name] -= 1

    def _least_busy(self, among: dict[str, Agent]) -> Agent:
        return min(among.values(), key=lambda one: self._busy[one.name])


def _authors(options: DispatchOptions, members: Members) -> dict[str, tuple[str, ...]]:
    """Return who may work on each step: the member that it names, or all of them."""
    pool = tuple(one.name for one in members)
    return {step.id: pool if step.agent is None else (step.agent,) for step in options.steps}


def _roles(options: DispatchOptions) -> Iterator[Issue]:
    """Yield steps with a role: a pool has none."""
    for index, step in enumerate(options.steps):
        if step.role is not None:
            text = f"the step {step.id!r} has a role, and 'dispatch' has none; name an agent, or use 'expert'"
            yield Issue(text, ("steps", index, "role"))
