"""Changes of a plan: who decides on one, what is wrong with it, the plan after it, and whom it affects. Pure.

A change never touches a step that has started: what is done stays done. Whatever a person edits is pinned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Literal

from pydantic import Field, JsonValue

from teamwright.errors import nearest
from teamwright.strategies.plan.changes.difference import PlanDifference, plan_difference, step_fields
from teamwright.strategies.plan.plan_check import plan_problems
from teamwright.values.specs.evaluation import code_of_evaluation
from teamwright.values.specs.plan import Pins, Plan, Roster, Step
from teamwright.values.text.display import name_text
from teamwright.values.value import Value

PlanCheck = Callable[[Plan, Roster], list[str]]
"""Returns every mistake in a plan of a team, as sentences."""
Author = Literal["person", "lead", "expert"]
Route = Literal["apply", "ask_lead", "ask_person"]


class PlanChange(Value):
    """A change: steps that are new or replaced as a whole, ids of steps that go, and variables with new values.

    A variable with the value null is removed.
    """

    put: tuple[Step, ...] = Field(default=(), description="steps that are added, or that replace those of their id")
    remove: tuple[str, ...] = Field(default=(), description="ids of steps that are removed")
    variables: dict[str, JsonValue] = Field(default={}, description="variables with new values; null removes one")
    reason: str = Field(default="", description="why")

    def __bool__(self) -> bool:
        return bool(self.put or self.remove or self.variables)


def change_between(before: Plan, after: Plan, reason: str = "") -> PlanChange:
    """Return the change that turns one plan into another, such as the one that a person edited.

    What a run keeps, such as the status of steps, is no part of it.
    """
    found = plan_difference(before, after)
    put = (*found.added, *(step for step, _ in found.changed))
    return PlanChange(
        put=tuple(step.model_copy(update={"status": "pending"}) for step in put),
        remove=tuple(step.id for step in found.removed),
        variables={one.name: one.after for one in found.variables},
        reason=reason,
    )


def edit_between(seen: Plan, after: Plan, present: Plan) -> PlanChange:
    """Return what a person changed in the version that it saw; what others have removed since needs no removal."""
    change = change_between(seen, after)
    return change.model_copy(update={"remove": tuple(id_ for id_ in change.remove if id_ in present.by_id)})


def route_change(plan: Plan, change: PlanChange, author: Author) -> Route:
    """Return who decides on a change. That of a person is applied; that of the lead too, unless it meets pins.

    That of another expert is a proposal to the lead, whose approval makes it one of the lead.
    """
    if author == "person":
        return "apply"
    if author == "expert":
        return "ask_lead"
    return "ask_person" if pin_conflicts(plan, change) else "apply"


def change_problems(plan: Plan, change: PlanChange, team: Roster, check: PlanCheck = plan_problems) -> list[str]:
    """Return every reason why a change can't be made, as sentences; empty if it can."""
    found = [*_impossible(plan, change)]
    if not found:
        after = _changed_plan(plan, change)
        if isinstance(after, str):
            return [after]
        found += check(after, team)
    return found


def apply_change(plan: Plan, change: PlanChange, *, by_person: bool = False) -> Plan:
    """Return the next version of the plan. The change must have no problems; what a person changes becomes pinned."""
    after = _changed_plan(plan, change)
    if isinstance(after, str):
        raise ValueError(after)  # noqa: TRY004 - a change with problems, which the caller has not looked for
    pins = _with_pins(plan, plan_difference(plan, after)) if by_person else plan.pins
    return after.model_copy(update={"version": plan.version + 1, "pins": pins})


def pin_conflicts(plan: Plan, change: PlanChange) -> list[str]:
    """Return what a person edited that a change would overwrite, as sentences."""
    return list(_pin_conflicts(plan, change))


def affected_experts(before: Plan, after: Plan, team: Roster) -> tuple[str, ...]:
    """Return the experts that a change has to be announced to.

    They are those of changed steps, before and after, and of open steps that need one of them; where variables
    changed, those of every open step.
    """
    found = plan_difference(before, after)
    touched = set(found.steps)
    steps = [*found.added, *found.removed, *(step for step, _ in found.changed)]
    steps += [before.by_id[step.id] for step, _ in found.changed]
    steps += [one for one in after.steps if one.is_open and (found.variables or not touched.isdisjoint(one.needs))]
    return tuple(dict.fromkeys(name for one in steps for name in one.experts or one.workers(team)))


def without_expert(plan: Plan, leaver: str, successor: Callable[[Step], str], roles: Collection[str] = ()) -> Plan:
    """Return the plan with the open steps of a member who left given to the successor in each.

    What it has begun keeps its name. `roles` are those that are declared; any other is the member of its name.
    """
    names = {leaver} - {*roles}
    own = (one for one in plan.steps if one.is_open and (leaver in one.experts or one.role in names))
    given = {one.id: _without(one, leaver, successor(one)) for one in own}
    steps = [given.get(one.id, one) for one in plan.steps]
    return plan.model_copy(update={"steps": tuple(steps)})


def _without(step: Step, leaver: str, to: str) -> Step:
    """Return a step of which another expert does the part of one who left; who competes already does so once."""
    if step.parallel == "serial":
        role = None if step.role == leaver else step.role
        agent = to if step.agent in (None, leaver) else step.agent
        return step.model_copy(update={"agent": agent, "agents": (), "role": role})
    if step.parts:
        parts = [one.model_copy(update={"agent": to}) if one.agent == leaver else one for one in step.parts]
        return step.model_copy(update={"parts": tuple(parts)})
    others = [name for name in step.agents if name != leaver]
    agents = others if to in others else [*others, to]
    if len(agents) > 1 or step.parallel == "subtask_parallel":
        return step.model_copy(update={"agents": tuple(agents)})
    fields = step.model_dump(exclude_unset=True, exclude={"parallel", "agents", "merge", "enough"})
    return Step.model_validate({**fields, "agent": agents[0]})


def _impossible(plan: Plan, change: PlanChange) -> Iterator[str]:
    """Yield what contradicts the plan as it is: steps that have started, are unknown, or are named twice."""
    steps, put = plan.by_id, [step.id for step in change.put]
    if not change:
        yield "the change changes nothing"
    planned = {one for step in plan.steps for one in code_of_evaluation(step.evaluate)}
    for step in change.put:
        for code in code_of_evaluation(step.evaluate):
            if code not in planned:  # models propose changes, and so do clients of a server
                yield f"the step {name_text(step.id)} would run {code!r}, and a manifest alone names code"
    twice = [id_ for id_, count in Counter((*put, *change.remove)).items() if count > 1]
    for id_ in twice:
        yield f"the change names the step {name_text(id_)} twice"
    for id_ in change.remove:
        if id_ not in steps:
            yield f"there is no step {name_text(id_)} to remove; {nearest(id_, steps).rstrip('.')}"
    for id_ in (*put, *change.remove):
        if id_ in steps and not steps[id_].is_open:
            yield f"the step {name_text(id_)} is {steps[id_].status.replace('_', ' ')}; what is done stays done"
    for step in change.put:
        if not step.is_open:
            yield f"the step {name_text(step.id)} says status: {step.status}; a run keeps the status, leave it out"


def _changed_plan(plan: Plan, change: PlanChange) -> Plan | str:
    """Return the plan with the change, in its order and with new steps last; what is wrong if no step is left."""
    put = {step.id: step for step in change.put}
    steps = [put.pop(one.id, one) for one in plan.steps if one.id not in change.remove]
    if not (steps or put):
        return "the change leaves no step"
    values = {**plan.variables, **change.variables}
    variables = {name: value for name, value in values.items() if value is not None}
    return plan.model_copy(update={"steps": (*steps, *put.values()), "variables": variables})


def _with_pins(plan: Plan, found: PlanDifference) -> Pins:
    """Return the pins of a plan with those of a person's edit."""
    steps = dict(plan.pins.steps)
    for step in found.added:
        steps[step.id] = tuple(step_fields(step))
    for step, fields in found.changed:
        steps[step.id] = tuple(dict.fromkeys((*steps.get(step.id, ()), *(one.name for one in fields))))
    for step in found.removed:
        steps[step.id] = ()
    names = (*plan.pins.variables, *(one.name for one in found.variables))
    return Pins(steps=steps, variables=tuple(dict.fromkeys(names)))


def _pin_conflicts(plan: Plan, change: PlanChange) -> Iterator[str]:
    steps, pins = plan.by_id, plan.pins.steps
    for step in change.put:
        if step.id not in steps:
            if step.id in pins:
                yield f"a person removed the step {name_text(step.id)}"
            continue
        before, after = step_fields(steps[step.id]), step_fields(step)
        lost = [name for name in pins.get(step.id, ()) if before.get(name) != after.get(name)]
        if lost:
            yield f"a person set {', '.join(lost)} of the step {name_text(step.id)}"
    for id_ in change.remove:
        if id_ in pins:
            yield f"a person edited the step {name_text(id_)}, which would be removed"
    for name in change.variables:
        if name in plan.pins.variables:
            yield f"a person set the variable {name_text(name)}"
