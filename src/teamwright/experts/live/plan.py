"""The plan of a live team: made by its options or its lead, and changed by people and by the lead."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue, TypeAdapter, ValidationError

from teamwright.experts.live.options import not_carried_out
from teamwright.strategies.expressions.conditions_and_templates import literal_template
from teamwright.strategies.hierarchical import LenientValue
from teamwright.strategies.plan.change import (
    PlanChange,
    apply_change,
    change_between,
    change_problems,
    edit_between,
    pin_conflicts,
)
from teamwright.strategies.plan.plan_check import plan_problems, task_of_model
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.specs.plan import Plan, Roster, Step
from teamwright.values.text.validation_messages import misfits_of
from teamwright.values.turns.turn import Reply

FORM = '{"steps": [{"id": "a-short-name", "agent": "the member that works on it", "task": "what it has to do"}]}'


class PlannedPhase(LenientValue):
    """A phase as a lead writes it; fields that it adds are ignored."""

    id: str
    agent: str
    task: str


class LeadPlan(LenientValue):
    """The plan that a lead answers with."""

    steps: tuple[PlannedPhase, ...]


_LEAD_PLAN = TypeAdapter(LeadPlan)


def plan_schema(members: list[str]) -> dict[str, JsonValue]:
    """Return the JSON Schema of a lead's plan."""
    phase: dict[str, JsonValue] = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "agent": {"type": "string", "enum": list[JsonValue](members)},
            "task": {"type": "string"},
        },
        "required": ["id", "agent", "task"],
    }
    return {"type": "object", "properties": {"steps": {"type": "array", "items": phase}}, "required": ["steps"]}


def one_phase_each(team: Roster, task: str) -> Plan:
    """Return the plan in which each member besides the lead works on the whole task, in order."""
    text = literal_template(task)
    return Plan(steps=tuple(Step(id=name, task=text) for name in team.workers or team.members))


def read_lead_plan(reply: Reply, before: Plan | None, team: Roster, most: int) -> Plan | str:
    """Return the plan that a lead answered with, after what is done already; what is wrong with it otherwise."""
    answer = read_answer(reply.full, _LEAD_PLAN)
    if isinstance(answer, ParseFailure):
        return answer.problem
    if not answer.steps or len(answer.steps) > most:
        return f"a plan has 1 to {most} steps, and this has {len(answer.steps)}"
    done = tuple(one for one in before.steps if not one.is_open) if before is not None else ()
    planned = tuple(Step(id=one.id, agent=one.agent, task=task_of_model(one.task)) for one in answer.steps)
    if before is None:
        made = Plan(steps=planned)
        return "; ".join(plan_problems(made, team)) or made
    change = change_between(before, before.model_copy(update={"steps": (*done, *planned)}))
    return _changed(before, change, team, by_person=False)


def edited_by_person(before: Plan, data: JsonValue, team: Roster, versions: Mapping[int, Plan]) -> Plan | str:
    """Return the plan with what a person has edited in the version that it saw, or what is wrong with that."""
    try:
        after = Plan.model_validate(data)
    except ValidationError as error:
        return "; ".join(map(str, misfits_of(error, data)))
    if (seen := versions.get(after.version)) is None:
        return f"the plan has no version {after.version}"
    return _changed(before, edit_between(seen, after, before), team, by_person=True)


def _changed(before: Plan, change: PlanChange, team: Roster, *, by_person: bool) -> Plan | str:
    """Return the next version of a plan, or what is wrong with it. A lead never overwrites what a person edited."""
    problems = [] if by_person else pin_conflicts(before, change)
    problems += [flaw.text for flaw in not_carried_out(change.put)]
    problems += change_problems(before, change, team)
    return "; ".join(problems) or apply_change(before, change, by_person=by_person)


def reassigned(plan: Plan, leaver: str, to: str) -> Plan:
    """Return the plan with the open phases of a member who left assigned to another; its done phases keep its name."""
    steps = [
        one.model_copy(update={"agent": to}) if one.is_open and leaver in one.experts else one for one in plan.steps
    ]
    return plan.model_copy(update={"steps": tuple(steps), "version": plan.version + 1})


def next_phase(plan: Plan) -> Step | None:
    """Return the first open phase, in the order of the plan, whose needs are settled."""
    phases = plan.by_id
    ready = (one for one in plan.steps if one.is_open and all(phases[need].is_settled for need in one.needs))
    return next(ready, None)
