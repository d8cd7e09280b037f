"""A plan whose steps are bound to members, with what is decided about each before it starts: judges, risk and rungs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from teamwright.agents.agent import Agent
from teamwright.agents.evaluators import Evaluator, dependence_of
from teamwright.errors import UsageError
from teamwright.strategies.plan.bound_roles import NO_ROLE, BoundRole, RoleBinding, bind_roles
from teamwright.strategies.plan.options import FailureLadder, PlanOptions, has_states
from teamwright.strategies.plan.plan_check import EMPTY, own_judge_text, own_judges, steps_flaws
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.plan.steps.step_options import EVALUATE, STEPS, declaration_problems, evaluator_among
from teamwright.strategies.plan.steps.step_work import StepAssignment
from teamwright.strategies.plan.versions import PresentMembers
from teamwright.strategies.protocol import Issue, Members
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.plan import CreatedRole, Plan, Role, Roster, Step


def evaluation_of(step: Step, options: PlanOptions) -> Evaluate | None:
    """Return how a step is reviewed: by its own declaration or that of the team, at the risk and in the rounds of it.

    A declaration that names its own risk keeps it; its own rounds may only be fewer. Where no states of steps are kept
    and the team says nothing of revisions, its own rounds count alone.
    """
    declared = step.evaluate or options.evaluate
    if declared is None:
        return None
    declared, most = declared.at_risk(options.risk), options.revisions
    if not options.keeps_states and "revisions" not in options.model_fields_set:
        return declared
    revisions = min(declared.revisions, most) if "revisions" in declared.model_fields_set else most
    return declared.model_copy(update={"revisions": revisions})


def evaluator_of_step(step: Step, options: PlanOptions, members: Members) -> Evaluator | None:
    """Return the evaluator of a step, with members or helpers of the team as its judges."""
    declared = evaluation_of(step, options)
    return None if declared is None else evaluator_among(members, declared)


def ladder_of(options: PlanOptions) -> FailureLadder:
    """Return what happens after failures, also where one word says it."""
    if options.ladder is not None:
        return options.ladder
    return FailureLadder(skip_step=options.on_failure == "skip")


def own_judge_flaws(
    options: PlanOptions, steps: Sequence[Step], authors: Mapping[str, Collection[str]], members: Members
) -> Iterator[Issue]:
    """Yield each judge of a step that may be its author, or may not judge it for another reason.

    `authors` are those who may work on a step, by its id. Judges that the plan itself names as authors are reported
    with the plan.
    """
    team = options.roster(members)
    for index, step in enumerate(steps):
        declared, names = evaluation_of(step, options), authors.get(step.id, ())
        if declared is None or not declared.asks_judges:
            continue
        own = step.evaluate is not None
        at, reported = ((STEPS, index, EVALUATE) if own else (EVALUATE,)), options.authors_of(step, team) if own else ()
        yield from (
            Issue(own_judge_text(step, name, options), at)
            for name in own_judges(declared, names)
            if name not in reported
        )
        for name in declared.judges:
            others = [members.named(one) for one in names if one != name and one in members.names]
            reasons = dependences(members.named(name), others, declared) if name in members.names else ()
            yield from (Issue(f"the step {step.id!r}: {reason}; name another judge", at) for reason in reasons)


def dependences(judge: Agent, authors: Iterable[Agent], declared: Evaluate) -> list[str]:
    """Return why a judge is not independent of those who may be the author of what it judges."""
    return [reason for one in authors if (reason := dependence_of(judge, one, declared))]


def risk_flaws(options: PlanOptions, steps: Sequence[Step]) -> Iterator[Issue]:
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


class BoundPlan:
    """Who works on the steps of a plan, and what is decided about each."""

    def __init__(self, state: PlanState) -> None:
        self._state = state
        self.binding = RoleBinding()
        self.assignments: dict[str, StepAssignment] = {}

    def bind(self, steps: Sequence[Step]) -> None:
        """Bind the steps of a plan without mistakes; steps that have started keep what was decided about them."""
        state, kept = self._state, {step.id for step in steps if not step.is_open}
        self.binding = bind_steps(state.options, state.roles, steps, state.members, state.team.lead.name)
        for step in steps:
            if step.id not in kept or step.id not in self.assignments:
                self.assignments[step.id] = self.assignment(step)

    def assignment(self, step: Step) -> StepAssignment:
        """Return what is decided about a step."""
        state, options = self._state, self._state.options
        bound = self.binding.by_step.get(step.id)
        name, role = ("", NO_ROLE) if bound is None else (bound.name, bound.role)
        return StepAssignment(
            step,
            name,
            role,
            evaluator_of_step(step, options, state.members),
            ladder_of(options),
            fails_at_once=options.ladder is not None or options.on_failure == "cancel",
            members=members_of(step, state.team.roster) if step.is_shared else (),
            decider=state.team.lead.name if options.decides else "",
        )

    def agent_of(self, step: Step) -> Agent | None:
        """Return who works on a step; None where the least busy member of the pool does."""
        if step.is_shared:
            return self._state.team.lead
        bound = self.binding.by_step.get(step.id)
        return None if bound is None else bound.agent


def members_of(step: Step, team: Roster) -> tuple[str, ...]:
    """Return who works on a step side by side, each once."""
    return step.experts or tuple(dict.fromkeys(step.workers(team)))


def bind_steps(
    options: PlanOptions, roles: Mapping[str, Role], steps: Iterable[Step], members: Members, lead: str
) -> RoleBinding:
    """Bind steps to roles and members; those of several members, and of a pool, are not bound.

    A role goes to the lead, or to a judge of the step, only where no other member can have it.
    """
    names = {one.name for one in members}
    leads = (lead,) if options.is_led else ()
    if options.has_one_worker:
        worker = options.workers_of(members)[0]
        return RoleBinding({step.id: BoundRole("", NO_ROLE, worker) for step in steps})
    alone = [step for step in steps if not step.is_shared]
    if options.pool:
        alone = [step for step in alone if step.agent is not None or step.role is not None or step.id in names]
        roles = {name: one for name, one in roles.items() if name in options.roles or isinstance(one, CreatedRole)}
    return bind_roles(alone, roles, members, lambda step: (*leads, *judges_of(step, options)))


def judges_of(step: Step, options: PlanOptions) -> tuple[str, ...]:
    """Return the names of those who are asked to judge a step."""
    declared = evaluation_of(step, options)
    return () if declared is None else declared.asked


def plan_problems_of(
    state: PlanState,
    plan: Plan,
    roster: Roster | None = None,
    new_roles: Mapping[str, Role] = EMPTY,
    members: PresentMembers | None = None,
) -> list[str]:
    """Return every reason why the members of this team can't execute a plan, or those of another roster.

    `members` are those after changes that have not taken effect.
    """
    present = members or state.team
    team, known, roles = roster or present.roster, present.everyone, {**state.roles_of(present), **new_roles}
    found = [
        flaw.text.rstrip(".")
        for flaw in steps_flaws(plan.steps, team, state.options, roles, plan.variables)
        if not flaw.is_warning
    ]
    found += [] if state.options.keeps_states else _stateless_problems(plan.steps)
    if found:
        return found
    workers = Members([known.named(name) for name in team.members], [known.named(name) for name in known.names])
    open_ = [step for step in plan.steps if step.is_open]
    binding = bind_steps(state.options, roles, plan.steps, workers, team.lead)
    found += binding.problems
    for step in () if found else open_:
        bound = None if step.is_shared else binding.by_step.get(step.id)
        names = state.options.authors_of(step, team) if bound is None else (bound.agent.name,)
        if state.options.decides and (problem := decision_problem(step, names, team)):
            found.append(f"{problem}; another member has to do it")
        try:
            evaluator = evaluator_of_step(step, state.options, workers)
        except UsageError as error:  # of steps that a person has edited; others were checked when the team was made
            found.append(f"the step {step.id!r}: {str(error).rstrip('.')}")
            continue
        if evaluator is None or not evaluator.declaration.asks_judges:
            continue
        authors = [workers.named(name) for name in names]
        for judge in evaluator.judges:
            reasons = dependences(judge, authors, evaluator.declaration)
            found += [f"the step {step.id!r}: {why}; another member has to do it, or to judge it" for why in reasons]
    return found


def decision_problem(step: Step, authors: Collection[str], team: Roster) -> str:
    """Return that the lead would decide on its own proposal, if it works on a step, also beside others."""
    if team.lead not in (members_of(step, team) if step.is_shared else authors):
        return ""
    return f"{team.lead!r} works on the step {step.id!r}, and no one decides on an own proposal"


def _stateless_problems(steps: Iterable[Step]) -> Iterator[str]:
    """Yield the steps whose states would have to be kept, in a team that keeps none."""
    for step in steps:
        if has_states(step):
            what = "is for several members" if step.is_shared else f"has the role {step.role!r}"
            yield f"the step {step.id!r} {what}, and this team began with steps of single agents; name one  agent"
