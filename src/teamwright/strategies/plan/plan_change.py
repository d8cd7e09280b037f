"""Changes of a plan: what is wrong with one, the plan after it, whom it affects, and how two plans differ. Pure.

A change never touches a step that has started: what is done stays done. Whatever a person edits is pinned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from json import dumps
from typing import Literal

from pydantic import Field, JsonValue
from pydantic_core import to_json

from teamwright.errors import nearest
from teamwright.strategies.expressions import without_literals
from teamwright.strategies.plan.plan_check import plan_problems
from teamwright.values.specs.evaluation import code_of_evaluation
from teamwright.values.specs.plan import BOOKKEEPING, Pins, Plan, Roster, Step
from teamwright.values.text.display import cut, name_text
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

    What a run keeps, such as the status of steps, is not part of it.
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


LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of a step, or a variable of a plan, before and after; None where it has none."""

    name: str
    before: JsonValue
    after: JsonValue

    def __str__(self) -> str:
        before, after = map(_without_literals, (self.before, self.after))
        if before == after:  # only what is escaped has changed
            before, after = self.before, self.after
        return f"{self.name}: {_shown(before)} → {_shown(after)}"


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """What another version adds, removes and changes, in the order of the plans."""

    added: tuple[Step, ...] = ()
    removed: tuple[Step, ...] = ()
    changed: tuple[tuple[Step, tuple[FieldChange, ...]], ...] = ()
    """The step as it is afterwards, and the fields that changed."""
    variables: tuple[FieldChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.variables)

    @property
    def steps(self) -> tuple[str, ...]:
        """The ids of the steps that differ."""
        return tuple(one.id for one in (*self.added, *self.removed, *(step for step, _ in self.changed)))

    @property
    def lines(self) -> tuple[str, ...]:
        """The difference in lines: `+` is added, `-` removed, `~` changed."""
        return tuple(
            chain(
                (f"+ {step_line(step)}" for step in self.added),
                (f"- {step_line(step)}" for step in self.removed),
                (f"~ {step.id}: {one}" for step, fields in self.changed for one in fields),
                (f"~ variables.{one}" for one in self.variables),
            )
        )

    def __str__(self) -> str:
        return "\n".join(self.lines)


def plan_difference(before: Plan | None, after: Plan) -> PlanDifference:
    """Return what another version of a plan changes; without one before, all of it is new."""
    if before is None:
        return PlanDifference(after.steps, variables=_field_changes({}, after.variables))
    old, new = before.by_id, after.by_id
    both = [(old[id_], step) for id_, step in new.items() if id_ in old]
    changed = [(step, _field_changes(step_fields(one), step_fields(step))) for one, step in both]
    return PlanDifference(
        added=tuple(step for id_, step in new.items() if id_ not in old),
        removed=tuple(step for id_, step in old.items() if id_ not in new),
        changed=tuple((step, fields) for step, fields in changed if fields),
        variables=_field_changes(before.variables, after.variables),
    )


def step_fields(step: Step) -> dict[str, JsonValue]:
    """Return the fields of a step that people and planners write, without defaults."""
    return step.model_dump(mode="json", exclude_defaults=True, exclude=set(BOOKKEEPING))


def step_line(step: Step) -> str:
    """Return a step in one line: its id, who works on it and how, after what, and its task."""
    who = ", ".join(step.experts) or "the lead chooses"
    how = "" if step.parallel == "serial" else f", {step.parallel}"
    merge = f", {step.merge}" if step.parallel == "competitive_parallel" else ""
    after = f", after {', '.join(step.needs)}" if step.needs else ""
    gate = ", with a milestone" if step.evaluate is not None else ""
    task = f": {cut(' '.join(without_literals(step.task).split()), LONGEST_SHOWN)}" if step.task else ""
    return f"{step.id} ({who}{how}{merge}{after}{gate}){task}"


def plan_after(before: JsonValue, edit: JsonValue) -> JsonValue:
    """Return the plan that an edit asks for, as data: what it leaves as it was stands where it stood.

    An edit is a plan, or a change of one. It need not be valid, and what is neither stands for itself. The order of
    steps is not part of it: new ones come last. What a run keeps makes no difference where the edit leaves it out.
    """
    if not isinstance(before, dict) or not isinstance(edit, dict):
        return edit
    if is_change(edit):
        edit = _after_change(before, edit)
    elif "steps" not in edit and "tasks" in edit:
        edit = {("steps" if name == "tasks" else name): value for name, value in edit.items()}
    old, new = before.get("steps"), edit.get("steps")
    if isinstance(old, list) and isinstance(new, list):
        places = {_id_of(step): place for place, step in enumerate(old)}
        kept = {_id_of(step): step for step in old}
        new = [_with_bookkeeping(kept.get(_id_of(step)), step) for step in new]
        edit = {**edit, "steps": sorted(new, key=lambda step: places.get(_id_of(step), len(places)))}
        if all(isinstance(step, dict) for step in new):
            edit = _with_bookkeeping(before, edit)
    return _in_order_of(before, edit)


def _with_bookkeeping(before: JsonValue, after: JsonValue) -> JsonValue:
    """Return a plan or a step, as data, with what a run keeps of it."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    return {**{name: before[name] for name in before if name in BOOKKEEPING}, **after}


def plan_text(plan: JsonValue) -> str:
    """Return a plan as people read and edit it; nothing where there is none."""
    return "" if plan is None else dumps(plan, indent=2, ensure_ascii=False)


def is_change(edit: Mapping[str, JsonValue]) -> bool:
    """Return whether an edit is a change of a plan and no whole plan."""
    return edit.keys().isdisjoint(("steps", "tasks")) and not edit.keys().isdisjoint(("put", "remove", "variables"))


def _after_change(before: dict[str, JsonValue], change: dict[str, JsonValue]) -> dict[str, JsonValue]:
    lists = (before.get("steps"), change.get("put"), change.get("remove"))
    steps, put, removed = ([*one] if isinstance(one, list) else [] for one in lists)
    new = {_id_of(step): step for step in put}
    kept = [new.pop(_id_of(step), step) for step in steps if _id_of(step) not in removed]
    after: dict[str, JsonValue] = {**before, "steps": [*kept, *new.values()]}
    own, given = before.get("variables"), change.get("variables")
    if isinstance(given, dict) and given:
        values = {**(own if isinstance(own, dict) else {}), **given}
        after["variables"] = {name: value for name, value in values.items() if value is not None}
    return after


def _in_order_of(before: JsonValue, after: JsonValue) -> JsonValue:
    """Return data with the keys of objects in the order of those before; items of lists are known by their ids."""
    if isinstance(before, dict) and isinstance(after, dict):
        names = (*(name for name in before if name in after), *(name for name in after if name not in before))
        return {name: _in_order_of(before.get(name), after[name]) for name in names}
    if isinstance(before, list) and isinstance(after, list):
        old = {_id_of(one): one for one in before}
        return [_in_order_of(old.get(_id_of(one)), one) for one in after]
    return after


def _id_of(item: JsonValue) -> JsonValue:
    """Return the id of an item of a plan, as data."""
    found = item.get("id") if isinstance(item, dict) else None
    return found if isinstance(found, str) else None


def _field_changes(before: dict[str, JsonValue], after: dict[str, JsonValue]) -> tuple[FieldChange, ...]:
    names = dict.fromkeys((*before, *after))
    return tuple(
        FieldChange(name, before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    )


def _without_literals(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return without_literals(value)
        case list():
            return [_without_literals(one) for one in value]
        case dict():
            return {name: _without_literals(one) for name, one in value.items()}
        case _:
            return value


def _shown(value: JsonValue) -> str:
    return "nothing" if value is None else cut(to_json(value).decode(), LONGEST_SHOWN)
