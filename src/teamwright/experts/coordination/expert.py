"""The expert strategy: plan, bind roles, work on each step until it passes its review, and recover from failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pydantic import JsonValue

from teamwright.agents.contract.agent import Context
from teamwright.errors import nearest
from teamwright.experts.coordination.bound_plan import bind_plan, own_judge_flaws, risk_flaws
from teamwright.experts.coordination.bound_roles import RoleBinding, bind_roles, role_of_step
from teamwright.experts.coordination.options import ExpertOptions
from teamwright.experts.coordination.plan_preview import confirm_plan
from teamwright.experts.coordination.plan_run import SCOPE, PlanRun, planning_outcome, run_within
from teamwright.experts.coordination.planned_steps import example_plan
from teamwright.experts.coordination.planner import MadePlan, effective_roles, known_plan, make_plan
from teamwright.experts.coordination.replan import Replanner, example_replan, plan_fact
from teamwright.strategies.parts import WORK
from teamwright.strategies.plan.graph import StepGraph
from teamwright.strategies.plan.planner import nodes_of
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
    condition_label,
)
from teamwright.strategies.team_conversation import TeamConversation
from teamwright.values.specs.plan import Role, Step
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn

RECORDED_PLAN = "recorded-plan"


class Expert(Strategy):
    """A plan of steps with roles. Each step is evaluated; the failure ladder and the risk say what a failure does."""

    name = "expert"
    version = 1
    options = ExpertOptions
    unused = ("max_turns", "on_max_turns")

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check plan, roles, evaluation and risk."""
        options = settings.read(ExpertOptions)
        names = {member.name for member in members}
        found = [
            *plan_flaws(options.steps),
            *template_flaws(options.steps),
            *_role_flaws(options, names),
            *risk_flaws(options, options.steps),
            *_own_judge_flaws(options, members),
        ]
        if options.steps and options.planner is not None:
            found.append(Issue("the plan is either fixed in  steps  or made by the planner; remove one", ("planner",)))
        if options.max_replans and options.planner is None:
            found.append(Issue("only a planner can plan again; name one in  planner, or remove it", ("max_replans",)))
        ids = {step.id for step in _known_steps(options, members)}
        if options.answer is not None and options.answer not in ids:
            hint = nearest(options.answer, ids) if ids else "a planner decides about the steps; remove it"
            found.append(Issue(f"there is no step {options.answer!r}; {hint}", ("answer",)))
        return found

    def lead(self, settings: Settings, members: Members) -> str | None:
        """Return the planner, if there is one."""
        return settings.read(ExpertOptions).planner

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each step, if the plan is known."""
        steps = _known_steps(settings.read(ExpertOptions), members)
        return {f"{SCOPE}/{step.id}/{WORK}": step.execution_tokens + step.coordination_tokens for step in steps}

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the step that gives the answer, if the plan is known and has one."""
        options = settings.read(ExpertOptions)
        steps = {step.id: step for step in _known_steps(options, members)}
        closer = closing_step(list(steps.values()), options.answer)
        bound = bind_roles(list(steps.values()), _roles_of(options, members), members).by_step
        if closer is None or closer not in bound:
            return ()
        return [ClosingAsk(bound[closer].agent.name, len(steps[closer].needs))]

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        """Return the steps and their dependencies; with a planner, the roles that it can use."""
        options = settings.read(ExpertOptions)
        roles, steps = _roles_of(options, members), _known_steps(options, members)
        notes = (f"{options.risk} risk", f"{options.max_parallel} at once", options.time_note)
        if not steps:
            planner = Node(id="planner", agent=options.planner or "", label="plan")
            nodes = [Node(id=name, agent=role.agent or "", label=name) for name, role in roles.items()]
            arrows = [Arrow(source=planner.id, to=node.id) for node in nodes]
            return Diagram(nodes=(planner, *nodes), arrows=tuple(arrows), notes=notes)
        return _plan_sketch(steps, bind_roles(steps, roles, members), notes)

    def example_reply(self, turn: Turn) -> JsonValue:
        """Return a plan, if the turn asks for one."""
        schema = turn.output_schema
        return None if schema is None else example_plan(schema) or example_replan(schema, turn.number)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Make the plan, bind its roles and execute it, all within the timeout."""
        options = task.settings.read(ExpertOptions)
        return await run_within(options.timeout, ExpertRun(task, options, members), ctx)


class ExpertRun:
    """One run of the strategy."""

    def __init__(self, task: Task, options: ExpertOptions, members: Members) -> None:
        self._task, self._options, self._members = task, options, members
        self._plan_run: PlanRun | None = None

    async def run(self, ctx: Context) -> Outcome | None:
        """Plan, bind and execute; return an outcome if there is no plan."""
        roles = _roles_of(self._options, self._members)
        plan = await make_plan(self._task, self._options, roles, self._members, ctx)
        if isinstance(plan, Reply):
            talk = TeamConversation(self._task)
            talk.add(plan)
            return talk.ended("terminated").changed(status="completed")
        if isinstance(plan, MadePlan):
            roles |= plan.new_roles
            if self._options.confirm:
                plan = await confirm_plan(plan, partial(self._step_problems, roles), ctx)
        if isinstance(plan, Failure):
            return planning_outcome(plan)
        bound = bind_plan(plan, roles, self._options, self._members)
        if isinstance(bound, list):
            failure = Failure(member="", error="planning", message="; ".join(bound))
            return planning_outcome(failure, plan.warnings)
        for fact in bound.binding.facts():
            await ctx.emit(fact)
        self._plan_run = PlanRun(self._task, self._options, plan, bound.assignments, bound.agents)
        await self._plan_run.announce(Expert.name, ctx)
        if self._options.max_replans and self._options.planner is not None:
            replanner = Replanner(self._task, self._options, roles, self._members, bound)
            await replanner.announce(ctx)
            self._plan_run.replan_by(replanner)
        elif self._options.planner is not None:
            # Under a key of its own, so that the counted events of runs that began without it keep their places.
            await ctx.emit(plan_fact(plan, self._options.planner), key=RECORDED_PLAN)
        await self._plan_run.run(ctx)
        return None

    async def finish(self, ctx: Context, *, timed_out: bool) -> Outcome:
        """Return the outcome of the steps; of a team without a plan, that its time is used up."""
        if self._plan_run is not None:
            return await self._plan_run.finish(ctx, timed_out=timed_out)
        text = self._options.out_of_time(" before it had a plan")
        return planning_outcome(Failure(member="", error="deadline", message=text))

    def _step_problems(self, roles: Mapping[str, Role], steps: Sequence[Step]) -> list[str]:
        """Return why edited steps can't be executed by the members of the team."""
        bound = bind_plan(MadePlan(tuple(steps)), roles, self._options, self._members)
        return bound if isinstance(bound, list) else []


def _own_judge_flaws(options: ExpertOptions, members: Members) -> Iterator[Issue]:
    """Yield each judge that is bound to the step that it judges, if the plan is known."""
    steps = _known_steps(options, members)
    bound = bind_roles(steps, _roles_of(options, members), members).by_step
    return own_judge_flaws(options, steps, {step: (one.agent.name,) for step, one in bound.items()})


def _roles_of(options: ExpertOptions, members: Members) -> dict[str, Role]:
    return effective_roles(options.roles, members, options.planner)


def _known_steps(options: ExpertOptions, members: Members) -> Sequence[Step]:
    known = known_plan(options, _roles_of(options, members))
    return () if known is None else known.steps


def _role_flaws(options: ExpertOptions, names: set[str]) -> Iterator[Issue]:
    """Yield steps without a role, and a warning for each role that no step has."""
    roles, used = options.roles, set[str]()
    for index, step in enumerate(options.steps):
        name = role_of_step(step, roles)
        used.add(name)
        if name in roles or (name in names and (step.role is None or not roles)):
            continue
        known, at = (roles or names), ("role" if step.role is not None else "id")
        text = (
            f"the step {step.id!r} has no role: there is neither a role nor a member {name!r}; {nearest(name, known)}"
        )
        yield Issue(text, ("steps", index, at))
    for name in roles if options.steps else ():
        if name not in used:
            yield Issue(f"no step has the role {name!r}; remove it", ("roles", name), is_warning=True)


def _plan_sketch(steps: Sequence[Step], binding: RoleBinding, notes: tuple[str, ...]) -> Diagram:
    by_id, graph = {step.id: step for step in steps}, StepGraph.from_nodes(nodes_of(steps))
    nodes: list[Node] = []
    for id_ in graph.order:
        bound, step = binding.by_step.get(id_), by_id[id_]
        role = "" if bound is None or bound.name in (id_, bound.agent.name) else f"as {bound.name}"
        about = " · ".join(filter(None, (role, condition_label(step.when))))
        nodes.append(Node(id=id_, agent="" if bound is None else bound.agent.name, label=id_, about=about))
    arrows = [Arrow(source=need, to=id_) for id_ in graph.order for need in graph.needs[id_]]
    return Diagram(nodes=tuple(nodes), arrows=tuple(arrows), notes=notes)
