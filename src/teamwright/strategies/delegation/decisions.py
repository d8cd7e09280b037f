"""The decisions of an orchestrator: delegate, synthesize or clarify.

The prompt asks for one format; parsing also accepts common variants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Literal, cast

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter
from pydantic_core import to_json

from teamwright.errors import nearest
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.models import Value
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.turn import Reply

FORM = """\
{"action": "delegate", "delegations": [{"specialist": NAME, "task": TEXT}, …]}  to let specialists work, side by side
{"action": "clarify", "question": TEXT}  to ask a person, when only a person can know
{"action": "synthesize", "synthesis": TEXT}  to give the team's answer and end"""
"""The format of a decision, as the prompt shows it."""


def _as_text(value: object) -> object:
    """Return JSON that is not a text as text, such as an object given as a task."""
    return value if isinstance(value, str) or value is None else to_json(value).decode()


Text = Annotated[str, Field(min_length=1), BeforeValidator(_as_text)]


class LenientValue(Value):
    """A value that ignores unknown fields, because models add them."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Delegation(LenientValue):
    """A task for one specialist."""

    specialist: Annotated[str, Field(validation_alias=AliasChoices("specialist", "specialist_id", "specialistId"))]
    task: Annotated[Text, Field(validation_alias=AliasChoices("task", "subtask"))]


class Delegate(LenientValue):
    """Let specialists work concurrently."""

    action: Literal["delegate"]
    delegations: Annotated[tuple[Delegation, ...], Field(min_length=1)]


class Synthesize(LenientValue):
    """Give the answer of the team."""

    action: Literal["synthesize"]
    synthesis: Annotated[JsonValue, Field(validation_alias=AliasChoices("synthesis", "answer"))]

    @property
    def text(self) -> str:
        """The answer as text."""
        return self.synthesis if isinstance(self.synthesis, str) else to_json(self.synthesis).decode()


class Clarify(LenientValue):
    """Ask a person."""

    action: Literal["clarify"]
    question: Text
    choices: tuple[str, ...] = ()


Decision = Delegate | Synthesize | Clarify


def read_decision(reply: Reply, specialists: Sequence[str], most: int) -> Decision | ParseFailure:
    """Return the decision of an orchestrator, with the exact names of specialists; `most` limits its delegations."""
    decision = read_answer(reply, _decision())
    if not isinstance(decision, Delegate):
        return decision
    if len(decision.delegations) > most:
        return ParseFailure(f"it delegates {len(decision.delegations)} tasks at once, and at most {most} are allowed")
    known: list[Delegation] = []
    for one in decision.delegations:
        name = _matching_specialist(one.specialist, specialists)
        if name is None:
            hint = nearest(one.specialist, specialists).rstrip(".")
            return ParseFailure(f"there is no specialist {one.specialist!r}; {hint}")
        known.append(one if name == one.specialist else one.model_copy(update={"specialist": name}))
    return decision.model_copy(update={"delegations": tuple(known)})


def decision_schema(specialists: Sequence[str]) -> JsonSchema:
    """Return the JSON Schema of a decision: one object with `action`, a form that every provider accepts."""
    text: JsonValue = {"type": "string"}
    names = cast("list[JsonValue]", list(specialists))
    delegation: JsonValue = {
        "type": "object",
        "properties": {"specialist": {"type": "string", "enum": names}, "task": text},
        "required": ["specialist", "task"],
    }
    return {
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["delegate", "synthesize", "clarify"]},
            "delegations": {"type": "array", "items": delegation, "description": "with delegate: who does what"},
            "synthesis": {"type": "string", "description": "with synthesize: the team's answer"},
            "question": {"type": "string", "description": "with clarify: what a person is asked"},
        },
        "required": ["action"],
    }


def example_decision(schema: Mapping[str, JsonValue], number: int) -> JsonValue:
    """Return a decision that matches `decision_schema`: first delegate to all, then synthesize; else None."""
    specialists = _specialists(dict(schema))
    if schema != decision_schema(specialists):
        return None
    if number > 1:
        return {"action": "synthesize", "synthesis": "All of it, put together."}
    return {"action": "delegate", "delegations": [{"specialist": one, "task": "Your part."} for one in specialists]}


def _specialists(schema: JsonValue) -> list[str]:
    """Return the specialists that the schema of a decision allows, in order."""
    for field in ("properties", "delegations", "items", "properties", "specialist", "enum"):
        schema = schema.get(field) if isinstance(schema, dict) else None
    return [name for name in schema if isinstance(name, str)] if isinstance(schema, list) else []


@cache
def _decision() -> TypeAdapter[Decision]:
    one_of = Annotated[Decision, Field(discriminator="action"), BeforeValidator(_normalized)]
    return TypeAdapter(one_of)


def _normalized(value: object) -> object:
    """Return the decision in the expected format: the action in lower case, a single delegation as a list."""
    if not isinstance(value, Mapping):
        return value
    fields = dict(cast("Mapping[str, JsonValue]", value))
    action = fields.get("action")
    if isinstance(action, str):
        fields["action"] = action.strip().lower()
    if fields.get("action") == "delegate":
        given = fields.get("delegations", fields)
        fields["delegations"] = [given] if isinstance(given, Mapping) else given
    return fields


def _matching_specialist(name: str, specialists: Sequence[str]) -> str | None:
    """Return the specialist with this name: an exact match, or else the only one that differs in case."""
    plain = name.strip()
    if plain in specialists:
        return plain
    like = [one for one in specialists if one.casefold() == plain.casefold()]
    return like[0] if len(like) == 1 else None
