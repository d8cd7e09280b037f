"""Finds every mistake in the steps of a plan, each with its place in the plan. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from teamwright.errors import nearest
from teamwright.strategies.expressions import Template, literal_template
from teamwright.strategies.plan.options import ANSWER, PlanOptions
from teamwright.strategies.plan.schedule import MOST_SUGGESTIONS
from teamwright.strategies.plan.steps.step_options import (
    STEP_VARIABLES,
    STEPS,
    plan_flaws,
    template_flaws,
    variable_flaws,
)
from teamwright.strategies.protocol import Issue
from teamwright.values.names import NAME
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.plan import CreatedRole, Part, Plan, Role, Roster, Step
from teamwright.values.text.display import name_text

LEAST_COMPETITORS = 2
UNNAMED = "names no agent, and no member has its name"
EMPTY: Mapping[str, Role] = {}


def task_template(text: str) -> str:
    """Return a text as the template of a task; one that is no template stands for itself."""
    return text if Template(text).problem(STEP_VARIABLES) is None else literal_template(text)


def plan_problems(plan: Plan, team: Roster) -> list[str]:
    """Return every mistake in a plan of this team, as sentences."""
    return [
        flaw.text
        for flaw in steps_flaws(plan.steps, team, PlanOptions.model_construct(), EMPTY, plan.variables)
        if not flaw.is_warning
    ]


def size_problems(before: Plan | None, after: Plan, most: int) -> list[str]:
    """Return where a plan that a model wrote, or changed, has too many steps, or a step too many to work on it.

    A plan that people made so large may stay so.
    """
    found: list[str] = []
    if len(after.steps) > max(most, 0 if before is None else len(before.steps)):
        found.append(f"the plan has {len(after.steps)} steps, and at most {most} are allowed")
    known = {} if before is None else before.by_id
    return found + crowd_problems([step for step in after.steps if known.get(step.id) != step], most)


def crowd_problems(steps: Iterable[Step], most: int) -> list[str]:
    """Return which steps are for too many members at once."""
    counted = ((step, max(len(step.parts), len(step.agents))) for step in steps)
    return [
        f"the step {name_text(step.id)} is for {count} at once, and at most {most} are allowed"
        for step, count in counted
        if count > most
    ]


def steps_flaws(
    steps: Sequence[Step],
    team: Roster,
    options: PlanOptions,
    roles: Mapping[str, Role] = EMPTY,
    variables: Collection[str] | None = None,
) -> list[Issue]:
    """Return every mistake in the steps, with its path: `steps`, the index of the step, and the field.

    `variables` are those of the plan, if they are known.
    """
    found = [*plan_flaws(steps), *template_flaws(steps)]
    near = _Suggestions(team.members, options.roles)
    judges = {*team.members, *team.helpers, team.lead}
    for index, step in enumerate(steps):
        if not step.is_open:  # what is done stays done, also of members who have left
            continue
        flaws = (*_form_flaws(step, team), *_unassigned(step, near, options, roles))
        if step.id == ANSWER and options.lead_answers and options.keeps_states:
            text = f"the lead answers in a step {step.id!r}, so another can't have the name; choose another one"
            found.append(Issue(text, (STEPS, index, "id")))
        for field, text in flaws:
            found.append(Issue(f"the step {name_text(step.id)} {text}", (STEPS, index, field)))
        found += variable_flaws(index, step, variables) if variables is not None else ()
        own = own_judges(step.evaluate, options.authors_of(step, team))
        found += (Issue(own_judge_text(step, name, options), (STEPS, index, "evaluate")) for name in own)
        for field, name in _strangers(step, near.members, judges):
            if field == "agent" and options.has_one_worker:  # who does the steps of all others
                continue
            text = f"the step {name_text(step.id)} names {name_text(name)}, which is not of the team{near.to(name)}"
            found.append(Issue(text, (STEPS, index, field)))
    return found


class _Suggestions:
    """The names that a wrong one may have meant; only the first few wrong ones get a suggestion, which takes time."""

    def __init__(self, members: Sequence[str], roles: Mapping[str, Role]) -> None:
        self.members = dict.fromkeys(members)
        self._known, self._left = (*roles, *members), MOST_SUGGESTIONS

    def to(self, name: str) -> str:
        self._left -= 1
        return f"; {nearest(name, self._known).rstrip('.')}" if self._left >= 0 else ""


def _form_flaws(step: Step, team: Roster) -> Iterator[tuple[str, str]]:
    """Yield fields that do not fit how the step runs, each with what is wrong."""
    if step.agent is not None and (step.agents or step.parts):
        yield "agent", "has 'agent' beside 'agents' or 'parts'; keep one of them"
    if step.parallel != "competitive_parallel":
        if step.merge != "best":
            yield "merge", f"has 'merge', which only a competition has; it is {step.parallel}"
        if step.enough is not None:
            yield "enough", f"has 'enough', which only a competition has; it is {step.parallel}"
    if step.parts and step.parallel != "subtask_parallel":
        yield "parts", f"has parts; write  parallel: subtask_parallel  for them, not {step.parallel}"
    if step.required and step.when is not None:
        yield "required", "is required and has a condition, by which it may be skipped; keep one of them"
    match step.parallel:
        case "serial":
            if step.agents:
                yield "agents", "is serial and has 'agents'; name one 'agent', or say how they work in 'parallel'"
        case "subtask_parallel":
            if step.agents and step.parts:
                yield "agents", "has 'agents' and 'parts'; each part names its agent, so keep one of them"
            yield from _part_flaws(step.parts)
        case "competitive_parallel":
            yield from _competition_flaws(step, step.workers(team))


def _unassigned(
    step: Step, near: _Suggestions, options: PlanOptions, roles: Mapping[str, Role]
) -> Iterator[tuple[str, str]]:
    """Yield that no member works on a step."""
    if step.is_shared or step.agents:
        return
    if step.role is not None and not options.has_roles and not isinstance(roles.get(step.role), CreatedRole):
        yield "role", "has a role, and a pool has none; name an agent, or remove  pool"
    elif step.role is not None and step.role not in roles and step.role not in near.members:
        yield "role", f"has no role: there is neither a role nor a member {step.role!r}{near.to(step.role)}"
    elif (
        step.agent is None
        and step.role is None
        and not options.pool
        and step.id not in roles
        and step.id not in near.members
        and NAME.fullmatch(step.id)
    ):
        text = "names no agent, and no role and no member has its name" if options.roles else UNNAMED
        yield "id", f"{text}{near.to(step.id)}"


def own_judges(declared: Evaluate | None, authors: Collection[str]) -> list[str]:
    """Return the judges of a review who may be the author of what they judge."""
    return [] if declared is None else [name for name in declared.asked if name in authors]


def own_judge_text(step: Step, judge: str, options: PlanOptions) -> str:
    """Return that a judge may be the author of a step, and what to do about it."""
    is_free = options.pool and not options.has_one_worker and step.agent is None and not step.is_shared
    hint = ", or list those who work in  pool" if is_free else ""
    return f"the step {name_text(step.id)}: {name_text(judge)} would judge its own work; name another judge{hint}"


def _part_flaws(parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    seen = set[str]()
    for part in parts:
        if part.id in seen:
            yield "parts", f"has two parts {name_text(part.id)}; give one of them another id"
        if not NAME.fullmatch(part.id):
            yield "parts", f"has a part {name_text(part.id)}; a name has letters, digits, '.', '_' and '-'"
        seen.add(part.id)


def _competition_flaws(step: Step, competitors: Sequence[str]) -> Iterator[tuple[str, str]]:
    if step.agent is not None:
        yield "agent", "is a competition and has 'agent'; name the competitors in 'agents'"
    elif len(competitors) < LEAST_COMPETITORS:
        yield "agents", f"is a competition of {len(competitors)}; name two or more agents"
    elif step.enough is not None and step.enough >= len(competitors):
        yield "enough", f"has enough: {step.enough}, and {len(competitors)} competitors; fewer would end it early"


def _strangers(step: Step, members: Collection[str], judges: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the names of agents that are no members, and of judges that the team does not know; each once."""
    if step.agent is not None and step.agent not in members:
        yield "agent", step.agent
    for field, names in (("agents", step.agents), ("parts", [part.agent for part in step.parts])):
        for name in dict.fromkeys(names):
            if name not in members:
                yield field, name
    for name in step.evaluate.judges if step.evaluate is not None else ():
        if name not in judges:
            yield "evaluate", name
