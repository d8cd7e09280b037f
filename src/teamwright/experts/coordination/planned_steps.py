"""The answer of a planner: the form that it is asked for, and how it is read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, cast

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter

from teamwright.errors import nearest
from teamwright.experts.coordination.options import ExpertStep
from teamwright.planning.schedule.planner import plan_faults
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.models import Value
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.turn import Reply

FORM = """\
{"steps": [{"id": NAME, "role": ROLE, "task": TEXT, "needs": [ID, …]}, …]}"""
"""The form of a plan, as the prompt shows it."""
SHOWN_FAULTS = 5


class PlannedStep(Value):
    """A step as a planner answers it; fields that it adds are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    id: str = Field(min_length=1, validation_alias=AliasChoices("id", "name"))
    role: str = Field(min_length=1)
    task: str = Field(min_length=1, validation_alias=AliasChoices("task", "description"))
    needs: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("needs", "depends_on"))


class PlannedSteps(Value):
    """The plan of a planner."""

    model_config = ConfigDict(extra="ignore")

    steps: tuple[PlannedStep, ...] = Field(min_length=1)


def plan_schema(roles: Sequence[str]) -> JsonSchema:
    """Return the JSON Schema of a plan."""
    text: JsonValue = {"type": "string"}
    step: JsonValue = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "description": "a short name: letters, digits, - and _"},
            "role": {"type": "string", "enum": cast("list[JsonValue]", list(roles))},
            "task": {"type": "string", "description": "what to do, in full sentences"},
            "needs": {"type": "array", "items": text, "description": "ids of the steps whose results it reads"},
        },
        "required": ["id", "role", "task"],
    }
    return {"type": "object", "properties": {"steps": {"type": "array", "items": step}}, "required": ["steps"]}


def read_plan(reply: Reply, roles: Sequence[str], most: int) -> tuple[ExpertStep, ...] | ParseFailure:
    """Return the steps in a reply, or every mistake in them, worded for the planner."""
    plan = read_answer(reply, _plan())
    if isinstance(plan, ParseFailure):
        return plan
    if len(plan.steps) > most:
        return ParseFailure(f"it has {len(plan.steps)} steps, and at most {most} are allowed")
    steps = tuple(
        ExpertStep(id=one.id, role=_exact(one.role, roles), task=one.task, needs=one.needs) for one in plan.steps
    )
    faults = [one.text for one in plan_faults(steps)]
    for step in steps:
        if step.role is not None and step.role not in roles:
            hint = nearest(step.role, roles)
            faults.append(f"the step {step.id!r} has the role {step.role!r}, which does not exist; {hint}")
    if faults:
        more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
        return ParseFailure("; ".join(fault.rstrip(".") for fault in faults[:SHOWN_FAULTS]) + more)
    return steps


def example_plan(schema: Mapping[str, JsonValue]) -> JsonValue:
    """Return a plan that matches `plan_schema`, with one step for each role; None for another schema."""
    roles = _roles(dict(schema))
    if not roles or schema != plan_schema(roles):
        return None
    ids = [f"step-{number}" for number, _ in enumerate(roles, start=1)]
    return {
        "steps": [
            {"id": ids[place], "role": role, "task": "Your part.", "needs": cast("list[JsonValue]", ids[:place][-1:])}
            for place, role in enumerate(roles)
        ]
    }


def _roles(schema: JsonValue) -> list[str]:
    for name in ("properties", "steps", "items", "properties", "role", "enum"):
        schema = schema.get(name) if isinstance(schema, dict) else None
    return [name for name in schema if isinstance(name, str)] if isinstance(schema, list) else []


def _exact(role: str, roles: Sequence[str]) -> str:
    """Return the role as it is declared, if it differs only in case or blanks."""
    like = [one for one in roles if one.casefold() == role.strip().casefold()]
    return like[0] if len(like) == 1 else role


@cache
def _plan() -> TypeAdapter[PlannedSteps]:
    return TypeAdapter(Annotated[PlannedSteps, BeforeValidator(_normalized)])


def _normalized(value: object) -> object:
    """Return a bare list of steps as a plan."""
    return {"steps": cast("list[object]", value)} if isinstance(value, list) else value
