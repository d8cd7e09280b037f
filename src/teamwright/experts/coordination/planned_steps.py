"""The answer of a planner: the form that it is asked for, and how it is read and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, NamedTuple, cast

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter

from teamwright.errors import InvalidName, nearest
from teamwright.strategies.plan.planner import plan_faults
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.names import NAME, suggest_name
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.plan import CreatedRole, Role, Step
from teamwright.values.turns.turn import Reply
from teamwright.values.value import Value

FORM = """\
{"steps": [{"id": NAME, "role": ROLE, "task": TEXT, "needs": [ID, …]}, …]}"""
"""The form of a plan, as the prompt shows it."""
SHOWN_FAULTS = 5
TEXT: JsonValue = {"type": "string"}


class PlannedStep(Value):
    """A step as a planner answers it; fields that it adds are ignored."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    id: str = Field(min_length=1, validation_alias=AliasChoices("id", "name"))
    role: str = Field(min_length=1)
    task: str = Field(min_length=1, validation_alias=AliasChoices("task", "description"))
    needs: tuple[str, ...] = Field(default=(), validation_alias=AliasChoices("needs", "depends_on"))
    instructions: str = ""
    capability: str | None = None
    reason: str = ""


class PlannedSteps(Value):
    """The plan of a planner."""

    model_config = ConfigDict(extra="ignore")

    steps: tuple[PlannedStep, ...] = Field(min_length=1)


def step_schema(roles: Sequence[str], *, create_roles: bool = False) -> dict[str, JsonValue]:
    """Return the JSON Schema of a step; with `create_roles`, of one that may have a role of its own."""
    names = cast("list[JsonValue]", list(roles))
    fields: dict[str, JsonValue] = {
        "id": {"type": "string", "description": "a short name: letters, digits, - and _"},
        "role": {"type": "string", "examples": names} if create_roles else {"type": "string", "enum": names},
        "task": {"type": "string", "description": "what to do, in full sentences"},
        "needs": {"type": "array", "items": TEXT, "description": "ids of the steps whose results it reads"},
    }
    if create_roles:
        fields["instructions"] = {"type": "string", "description": "of a new role: what it is and does"}
        fields["capability"] = {"type": "string", "description": "of a new role: what its member must be able to do"}
    return {"type": "object", "properties": fields, "required": ["id", "role", "task"]}


def plan_schema(roles: Sequence[str], *, create_roles: bool = False) -> JsonSchema:
    """Return the JSON Schema of a plan."""
    steps: JsonValue = {"type": "array", "items": step_schema(roles, create_roles=create_roles)}
    return {"type": "object", "properties": {"steps": steps}, "required": ["steps"]}


class ReadSteps(NamedTuple):
    """The steps of an answer, and the roles that it makes."""

    steps: tuple[Step, ...]
    new_roles: dict[str, Role] = {}


def read_plan(reply: Reply, roles: Sequence[str], most: int, *, create_roles: bool = False) -> ReadSteps | ParseFailure:
    """Return the plan in a reply, or every mistake in it, worded for the planner."""
    plan = read_answer(reply, _plan())
    if isinstance(plan, ParseFailure):
        return plan
    if len(plan.steps) > most:
        return ParseFailure(f"it has {len(plan.steps)} steps, and at most {most} are allowed")
    found = checked_steps(plan.steps, roles, create_roles=create_roles)
    return found if isinstance(found, ReadSteps) else ParseFailure(found)


def checked_steps(
    planned: Sequence[PlannedStep], roles: Sequence[str], earlier: Sequence[Step] = (), *, create_roles: bool
) -> ReadSteps | str:
    """Return these steps after earlier ones, or what is wrong with them: ids, needs, cycles and roles."""
    names = [_exact(one.role, roles) for one in planned]
    steps = tuple(
        Step(id=one.id, role=name if NAME.fullmatch(name) else None, task=one.task, needs=one.needs)
        for one, name in zip(planned, names, strict=True)
    )
    faults = [one.text for one in plan_faults((*earlier, *steps))]
    made: dict[str, Role] = {}
    for name, one in zip(names, planned, strict=True):
        if name in roles or name in made:
            continue
        if not create_roles:
            faults.append(f"the step {one.id!r} has the role {name!r}, which does not exist; {nearest(name, roles)}")
        elif not NAME.fullmatch(name):
            faults.append(f"the step {one.id!r}: {InvalidName('role', name, suggest_name(name))}")
        elif not one.instructions.strip():
            faults.append(f"the step {one.id!r} has the new role {name!r}, which needs instructions")
        else:
            made[name] = CreatedRole(instructions=one.instructions, capability=one.capability or None)
    if faults:
        more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
        return "; ".join(fault.rstrip(".") for fault in faults[:SHOWN_FAULTS]) + more
    return ReadSteps(steps, made)


def example_plan(schema: Mapping[str, JsonValue]) -> JsonValue:
    """Return a plan that matches `plan_schema`, with one step for each role; None for another schema."""
    roles = roles_in(dict(schema))
    if not roles or schema not in (plan_schema(roles), plan_schema(roles, create_roles=True)):
        return None
    ids = [f"step-{number}" for number, _ in enumerate(roles, start=1)]
    return {
        "steps": [
            {"id": ids[place], "role": role, "task": "Your part.", "needs": cast("list[JsonValue]", ids[:place][-1:])}
            for place, role in enumerate(roles)
        ]
    }


def roles_in(schema: JsonValue) -> list[str]:
    """Return the roles that a schema with steps names."""
    for name in ("properties", "steps", "items", "properties", "role"):
        schema = schema.get(name) if isinstance(schema, dict) else None
    names = (schema.get("enum") or schema.get("examples")) if isinstance(schema, dict) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


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
