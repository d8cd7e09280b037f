"""A plan whose steps are bound to members, with what is decided about each before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from teamwright.agents.contract.agent import Agent, Context
from teamwright.agents.evaluators import dependence_of
from teamwright.errors import UsageError
from teamwright.experts.coordination.bound_roles import RoleBinding, bind_roles
from teamwright.experts.coordination.options import ExpertOptions, Role
from teamwright.experts.coordination.planner import MadePlan
from teamwright.experts.coordination.risk import evaluator_of_step
from teamwright.experts.coordination.step_work import StepAssignment
from teamwright.strategies.protocol import Members
from teamwright.values.specs.plan import Step


class BoundAgents:
    """The agents that were bound to the steps at plan time; a retry asks the same one."""

    def __init__(self, binding: RoleBinding) -> None:
        self._by_step = {step: bound.agent for step, bound in binding.by_step.items()}

    def acquire(self, step: Step, ctx: Context) -> Agent:
        """Return the agent that is bound to the step."""
        return self._by_step[step.id]

    def exchange(self, step: Step, failed: Agent) -> Agent:
        """Return the same agent."""
        return failed

    def release(self, agent: Agent) -> None:
        """Do nothing: agents are not counted."""


@dataclass(frozen=True, slots=True)
class BoundPlan:
    """A plan that can be executed."""

    plan: MadePlan
    binding: RoleBinding
    assignments: Mapping[str, StepAssignment]

    @property
    def agents(self) -> BoundAgents:
        """The agents of its steps."""
        return BoundAgents(self.binding)


def bind_plan(
    plan: MadePlan, roles: Mapping[str, Role], options: ExpertOptions, members: Members
) -> BoundPlan | list[str]:
    """Bind the steps of a plan to members and evaluators, or return every reason why that is impossible."""
    binding = bind_roles(plan.steps, roles, members)
    if binding.problems:
        return binding.problems
    assignments: dict[str, StepAssignment] = {}
    problems: list[str] = []
    for step in plan.steps:
        bound = binding.by_step[step.id]
        try:
            evaluator = evaluator_of_step(step, options, members)
        except UsageError as error:  # of steps that a person has edited; others were checked when the team was made
            problems.append(f"the step {step.id!r}: {str(error).rstrip('.')}")
        else:
            assignments[step.id] = StepAssignment(step, bound.name, bound.role, evaluator, options.on_failure)
    problems += _dependent_judges(assignments.values(), binding)
    return problems or BoundPlan(plan, binding, assignments)


def _dependent_judges(assignments: Iterable[StepAssignment], binding: RoleBinding) -> Iterator[str]:
    """Yield a problem for each judge that is the author of a step, or has its model where that is refused."""
    for one in assignments:
        declared = one.evaluator.declaration
        for judge in one.evaluator.judges if declared.asks_judges else ():
            if problem := dependence_of(judge, binding.by_step[one.step.id].agent, declared):
                yield f"the step {one.step.id!r}: {problem}"
