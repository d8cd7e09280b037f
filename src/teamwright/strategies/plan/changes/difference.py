"""The difference between two versions of a plan, in words that a person can judge. Pure.

What a run keeps (status, version, pins) is no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from json import dumps

from pydantic import JsonValue
from pydantic_core import to_json

from teamwright.strategies.expressions.conditions_and_templates import without_literals
from teamwright.values.specs.plan import BOOKKEEPING, Plan, Step
from teamwright.values.text.display import cut

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
    steps is no part of it: new ones come last. What a run keeps is no difference where the edit leaves it out.
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
