"""Makes the plan of an expert team: fixed steps, one step for each role, or the steps of a planning agent.

A planner whose answer can't be used gets it back once, with the reason. What it writes is data: its texts are never
templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from teamwright.agents.contract.agent import Context
from teamwright.experts.coordination.bound_roles import bind_roles
from teamwright.experts.coordination.options import ExpertOptions
from teamwright.experts.coordination.planned_steps import FORM, ReadSteps, plan_schema, read_plan
from teamwright.strategies.protocol import Members, Task, description_line
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.events.team import TeamReplyRejected
from teamwright.values.specs.plan import Role, Step
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

ONE_STEP = "task"
"""The id of the only step of a plan that replaces one that could not be made."""
NEW_ROLES = "You may make other roles: give such a step  instructions, which say what the role is and does."
PLAN, PLAN_AGAIN = "plan", "plan-again"


@dataclass(frozen=True, slots=True)
class MadePlan:
    """The steps of a team. `literal` says that their tasks are plain texts and no templates; `new_roles` are
    those that the planner made.
    """

    steps: tuple[Step, ...]
    literal: bool = False
    new_roles: Mapping[str, Role] = field(default_factory=dict[str, Role])
    warnings: tuple[str, ...] = ()
    reason: str = ""


def effective_roles(declared: Mapping[str, Role], members: Members, coordinator: str | None = None) -> dict[str, Role]:
    """Return the declared roles; without any, each member but the coordinator is a role of its own."""
    if declared:
        return dict(declared)
    others = [one for one in members if one.name != coordinator or len(members) == 1]
    return {one.name: Role(agent=one.name, description=description_line(one)) for one in others}


def steps_of_roles(roles: Mapping[str, Role]) -> tuple[Step, ...]:
    """Return one step for each role, in order; each gets the results of all before it."""
    names = list(roles)
    return tuple(Step(id=name, role=name, needs=tuple(names[:place])) for place, name in enumerate(names))


def known_plan(options: ExpertOptions, roles: Mapping[str, Role]) -> MadePlan | None:
    """Return the plan that is known before the run; None if a planner has to make it."""
    if options.steps:
        return MadePlan(options.steps)
    return None if options.planner is not None else MadePlan(steps_of_roles(roles))


async def make_plan(
    task: Task, options: ExpertOptions, roles: Mapping[str, Role], members: Members, ctx: Context
) -> MadePlan | Reply | Failure:
    """Return the plan; the reply of a planner that terminates the team, or the failure of a plan that can't be made."""
    if (known := known_plan(options, roles)) is not None:
        return known
    assert options.planner is not None
    made = await _ask_planner(task, options, roles, members, ctx)
    if isinstance(made, str):
        if options.on_planner_failure == "fail_fast":
            return Failure(member="", error="planning", message=f"there is no plan: {made}")
        name = next(iter(roles))
        warning = f"the planner {options.planner!r} gave no plan ({made}); the task is one step of the role {name!r}"
        return MadePlan((Step(id=ONE_STEP, role=name),), literal=True, warnings=(warning,))
    return made


async def _ask_planner(
    task: Task, options: ExpertOptions, roles: Mapping[str, Role], members: Members, ctx: Context
) -> MadePlan | Reply | str:
    """Return the plan of the planner; its reply if it terminates the team, or why there is no plan."""
    assert options.planner is not None
    planner, warnings = members.named(options.planner), list[str]()
    history, problem = list(task.history), ""
    for key in (PLAN, PLAN_AGAIN):
        turn = planning_turn(task, options, roles, History.of(history), problem)
        reply = await ctx.ask(planner, turn, key=key)
        if isinstance(reply, Failure):
            return f"{planner.name!r} failed ({reply.error}: {reply.message})"
        if reply.signal == "terminate":
            return reply
        warnings += reply.lasting_warnings
        read = _bindable_plan(reply.full, options, roles, members)
        if not isinstance(read, ParseFailure):
            reason = f"planned by {planner.name!r}"
            return MadePlan(read.steps, literal=True, new_roles=read.new_roles, warnings=tuple(warnings), reason=reason)
        problem = read.problem
        if key == PLAN:
            await ctx.emit(TeamReplyRejected(member=planner.name, problem=problem))
            history.append(Message(name=planner.name, content=reply.text))
    return f"the plan of {planner.name!r} could not be used, also when asked again: {problem}"


def _bindable_plan(
    reply: Reply, options: ExpertOptions, roles: Mapping[str, Role], members: Members
) -> ReadSteps | ParseFailure:
    """Return the plan in a reply, or what is wrong with it, also that no member can have one of its roles."""
    read = read_plan(reply, list(roles), options.max_steps, create_roles=options.create_roles)
    if isinstance(read, ParseFailure):
        return read
    problems = bind_roles(read.steps, {**roles, **read.new_roles}, members).problems
    return ParseFailure("; ".join(problems)) if problems else read


def planning_turn(
    task: Task, options: ExpertOptions, roles: Mapping[str, Role], history: History, problem: str = ""
) -> Turn:
    """Return the turn of a planner: the form of a plan, the roles, and the task."""
    rules = (
        f"At most {options.max_steps} steps. A step reads the results of the steps that it needs, and no others; steps"
        " that need nothing of each other run side by side. The last step gives the team's answer."
    )
    parts = [
        f"You plan the work of a team. Divide the task into steps. Answer with one JSON object:\n{FORM}",
        "The roles:\n" + "\n".join(f"- {role_line(name, role)}" for name, role in roles.items()),
        rules,
        NEW_ROLES if options.create_roles else "",
        f"Your last answer could not be used: {problem}. Plan again." if problem else "",
        f"The task:\n{task.text}",
    ]
    return Turn(
        "\n\n".join(filter(None, parts)),
        history,
        purpose="coordinate",
        output_schema=plan_schema(list(roles), create_roles=options.create_roles),
        attachments=task.attachments,
    )


def role_line(name: str, role: Role) -> str:
    """Return the name of a role and what it is for, as planners read it."""
    about = role.description or role.capability or ""
    return f"{name}: {about}" if about else name
