"""Finds every mistake in the phases of a plan, each with its place in the plan. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from teamwright.errors import nearest
from teamwright.strategies.expressions.conditions_and_templates import Condition, Template, literal_template
from teamwright.strategies.plan.graph import MOST_SUGGESTIONS
from teamwright.strategies.plan.step_options import BY_STEP, STEP_VARIABLES, plan_flaws
from teamwright.strategies.protocol import Issue
from teamwright.values.names import NAME
from teamwright.values.specs.plan import Part, Plan, Roster, Step
from teamwright.values.text.display import name_text

PHASE_VARIABLES = (*STEP_VARIABLES, "variables")
"""The variables of conditions and tasks: those of steps, and those of the plan."""
LEAST_COMPETITORS = 2


def plan_problems(plan: Plan, team: Roster) -> list[str]:
    """Return every mistake in a plan of this team, as sentences."""
    return [flaw.text for flaw in phase_flaws(plan.steps, team)]


def task_of_model(text: str) -> str:
    """Return a text of a model or of the user as the template of a task; one that is no template stands for itself."""
    return text if Template(text).problem(PHASE_VARIABLES) is None else literal_template(text)


def size_problems(before: Plan | None, after: Plan, most: int) -> list[str]:
    """Return where a plan that a model wrote, or changed, has too many phases, or a phase too many to work on it.

    A plan that people made so large may stay so.
    """
    found: list[str] = []
    if len(after.steps) > max(most, 0 if before is None else len(before.steps)):
        found.append(f"the plan has {len(after.steps)} phases, and at most {most} are allowed")
    known = {} if before is None else before.by_id
    for phase in after.steps:
        count = max(len(phase.parts), len(phase.agents))
        if count > most and known.get(phase.id) != phase:
            found.append(f"the phase {name_text(phase.id)} is for {count} at once, and at most {most} are allowed")
    return found


def phase_flaws(phases: Sequence[Step], team: Roster) -> list[Issue]:
    """Return every mistake in the phases, with its path: `steps`, the index of the phase, and the field."""
    found = list(plan_flaws(phases))
    strangers = 0
    for index, phase in enumerate(phases):
        if not phase.is_open:  # what is done stays done, also of experts who have left
            continue
        for field, text in (*_form_flaws(phase, team), *_judge_flaws(phase, team)):
            found.append(Issue(f"the phase {name_text(phase.id)} {text}", ("steps", index, field)))
        for field, name in _strangers(phase, team):
            strangers += 1
            hint = f"; {nearest(name, team.members)}" if strangers <= MOST_SUGGESTIONS else ""
            text = (
                f"the phase {name_text(phase.id)} names {name_text(name)}, which is not of the team{hint.rstrip('.')}"
            )
            found.append(Issue(text, ("steps", index, field)))
        found += _text_flaws(phase, index)
    return found


def _form_flaws(phase: Step, team: Roster) -> Iterator[tuple[str, str]]:
    """Yield fields that do not fit how the phase runs, each with what is wrong."""
    if phase.agent is not None and (phase.agents or phase.parts):
        yield "agent", "has 'agent' beside 'agents' or 'parts'; keep one of them"
    if phase.parallel != "competitive_parallel":
        if "merge" in phase.model_fields_set:
            yield "merge", f"has 'merge', which only a competition has; it is {phase.parallel}"
        if phase.enough is not None:
            yield "enough", f"has 'enough', which only a competition has; it is {phase.parallel}"
    if phase.parts and phase.parallel != "subtask_parallel":
        yield "parts", f"has parts; write  parallel: subtask_parallel  for them, not {phase.parallel}"
    match phase.parallel:
        case "serial":
            if phase.agents:
                yield "agents", "is serial and has 'agents'; name one 'agent', or say how they work in 'parallel'"
            elif phase.agent is None and phase.id not in team.members and NAME.fullmatch(phase.id):
                yield "id", f"names no agent, and no member has its name; {nearest(phase.id, team.members).rstrip('.')}"
        case "subtask_parallel":
            if phase.agents and phase.parts:
                yield "agents", "has 'agents' and 'parts'; each part names its agent, so keep one of them"
            yield from _part_flaws(phase.parts)
        case "competitive_parallel":
            yield from _competition_flaws(phase, phase.workers(team))


def _judge_flaws(phase: Step, team: Roster) -> Iterator[tuple[str, str]]:
    """Yield judges that may be the author of what they judge, where several members work on a phase."""
    if phase.evaluate is None or phase.parallel == "serial":  # a step of one member is checked like all steps
        return
    for name in phase.evaluate.judges if phase.evaluate.asks_judges else ():
        if name in phase.authors(team):
            yield "evaluate", f"has the judge {name_text(name)}, who may be the author of its result; name another one"


def _part_flaws(parts: Sequence[Part]) -> Iterator[tuple[str, str]]:
    seen = set[str]()
    for part in parts:
        if part.id in seen:
            yield "parts", f"has two parts {name_text(part.id)}; give one of them another id"
        if not NAME.fullmatch(part.id):
            yield "parts", f"has a part {name_text(part.id)}; a name has letters, digits, '.', '_' and '-'"
        seen.add(part.id)


def _competition_flaws(phase: Step, competitors: Sequence[str]) -> Iterator[tuple[str, str]]:
    if phase.agent is not None:
        yield "agent", "is a competition and has 'agent'; name the competitors in 'agents'"
    elif len(competitors) < LEAST_COMPETITORS:
        yield "agents", f"is a competition of {len(competitors)}; name two or more agents"
    elif phase.enough is not None and phase.enough >= len(competitors):
        yield "enough", f"has enough: {phase.enough}, and {len(competitors)} competitors; fewer would end it early"


def _strangers(phase: Step, team: Roster) -> Iterator[tuple[str, str]]:
    """Yield the names of agents that are no members, and of judges that the team does not know; each once."""
    named = {"agent": phase.agent, "agents": phase.agents, "parts": [part.agent for part in phase.parts]}
    for field, names in named.items():
        for name in dict.fromkeys((names,) if isinstance(names, str) else names or ()):
            if name not in team.members:
                yield field, name
    for name in phase.evaluate.judges if phase.evaluate is not None else ():
        if name not in (*team.members, *team.helpers, team.lead):
            yield "evaluate", name


def _text_flaws(phase: Step, index: int) -> Iterator[Issue]:
    """Yield invalid conditions and tasks, and those that read phases which they do not need."""
    texts: list[tuple[str, Condition | Template]] = []
    if phase.when is not None:
        texts.append(("when", Condition(phase.when)))
    texts += [("task", Template(text)) for text in (phase.task,) if text is not None]
    texts += [("parts", Template(part.task)) for part in phase.parts if part.task is not None]
    for field, text in texts:
        at = ("steps", index, field)
        if problem := text.problem(PHASE_VARIABLES):
            yield Issue(f"the phase {name_text(phase.id)}: {problem}", at)
            continue
        for key in dict.fromkeys(key for _, key in text.keys(BY_STEP)):
            if key not in phase.needs:
                reads = f"reads {name_text(key)}, which is not among its needs; add it"
                yield Issue(f"the phase {name_text(phase.id)} {reads}", at)


def phase_text(phase: Step, task: str | None) -> str:
    """Return a phase as the lead reads it; `task` is its task, rendered."""
    return f"The phase: {phase.title}" + (f"\nIts task: {task}" if task else "")
