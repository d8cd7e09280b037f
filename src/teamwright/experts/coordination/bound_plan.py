"""A plan whose steps are bound to members, with what is decided about each before it starts: judges and risk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from teamwright.agents.contract.agent import Agent, Context
from teamwright.agents.evaluators import Evaluator, dependence_of
from teamwright.errors import UsageError
from teamwright.experts.coordination.bound_roles import RoleBinding, bind_roles
from teamwright.experts.coordination.options import CoordinationOptions, ExpertOptions
from teamwright.experts.coordination.planner import MadePlan
from teamwright.experts.coordination.step_work import StepAssignment
from teamwright.strategies.plan.step_options import EVALUATE, STEPS, declaration_problems, evaluator_among
from teamwright.strategies.protocol import Issue, Members
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.plan import Role, Step


def evaluation_of(step: Step, options: CoordinationOptions) -> Evaluate:
    """Return how a step is evaluated: by its own declaration or that of the team, at the risk and in the rounds of it.

    A declaration that names its own risk keeps it; its own rounds may only be fewer.
    """
    declared = (step.evaluate or options.evaluate or Evaluate()).at_risk(options.risk)
    most = options.max_feedback_rounds
    rounds = min(declared.rounds, most) if "rounds" in declared.model_fields_set else most
    return declared.model_copy(update={"rounds": rounds})


def evaluator_of_step(step: Step, options: CoordinationOptions, members: Members) -> Evaluator:
    """Return the evaluator of a step, with members or helpers of the team as its judges."""
    return evaluator_among(members, evaluation_of(step, options))


def own_judge_flaws(
    options: CoordinationOptions, steps: Sequence[Step], authors: Mapping[str, Collection[str]]
) -> Iterator[Issue]:
    """Yield each judge of a step that may be its author; `authors` are those who may work on a step, by its id."""
    for index, step in enumerate(steps):
        declared, own = evaluation_of(step, options), step.evaluate is not None
        reported = {step.agent or step.id} if own else set[str]()  # with the plan
        for name in declared.judges if declared.asks_judges else ():
            if name in authors.get(step.id, ()) and name not in reported:
                text = f"the step {step.id!r}: {name!r} would judge its own work; name another judge"
                yield Issue(text, (STEPS, index, EVALUATE) if own else (EVALUATE,))


def risk_flaws(options: CoordinationOptions, steps: Sequence[Step]) -> Iterator[Issue]:
    """Yield what is wrong with the evaluations at the risk of the team, and what a reader may not expect of them."""
    if options.evaluate is not None:
        declared = options.evaluate.at_risk(options.risk)
        yield from (Issue(text, (EVALUATE,)) for text in declaration_problems(declared))
        yield from (Issue(text, (EVALUATE,), is_warning=True) for text in declared.warnings())
    for index, step in enumerate(steps):
        if step.evaluate is not None:
            at, declared = (STEPS, index, EVALUATE), step.evaluate.at_risk(options.risk)
            own = step.evaluate.problems()  # which are reported with the plan
            yield from (Issue(f"the step {step.id!r}: {text}", at) for text in declared.problems() if text not in own)
            yield from (Issue(f"the step {step.id!r}: {text}", at, is_warning=True) for text in declared.warnings())


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
