"""What an orchestrator may decide: delegate, synthesize or clarify. It is asked for one form, and others are read."""

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
"""How a decision is written, for whoever decides."""


def _as_text(value: object) -> object:
    """What should be a text and is other JSON, as text: a task for an agent that takes objects, for example."""
    return value if isinstance(value, str) or value is None else to_json(value).decode()


Text = Annotated[str, Field(min_length=1), BeforeValidator(_as_text)]


class Loose(Value):
    """A value that takes no offence at what else a model writes beside it."""

    model_config = ConfigDict(extra="ignore", populate_by_name=True)


class Delegation(Loose):
    """Work for one specialist."""

    specialist: Annotated[str, Field(validation_alias=AliasChoices("specialist", "specialist_id", "specialistId"))]
    task: Annotated[Text, Field(validation_alias=AliasChoices("task", "subtask"))]


class Delegate(Loose):
    """Let specialists work, side by side."""

    action: Literal["delegate"]
    delegations: Annotated[tuple[Delegation, ...], Field(min_length=1)]


class Synthesize(Loose):
    """Give the team's answer."""

    action: Literal["synthesize"]
    synthesis: Annotated[JsonValue, Field(validation_alias=AliasChoices("synthesis", "answer"))]

    @property
    def text(self) -> str:
        """The answer as text."""
        return self.synthesis if isinstance(self.synthesis, str) else to_json(self.synthesis).decode()


class Clarify(Loose):
    """Ask a person."""

    action: Literal["clarify"]
    question: Text
    choices: tuple[str, ...] = ()


Decision = Delegate | Synthesize | Clarify


def read_decision(reply: Reply, specialists: Sequence[str], most: int) -> Decision | ParseFailure:
    """What an orchestrator decided, with specialists spelt as they are known; `most` bounds one decision."""
    decision = read_answer(reply, _decision())
    if not isinstance(decision, Delegate):
        return decision
    if len(decision.delegations) > most:
        return ParseFailure(f"it delegates {len(decision.delegations)} tasks at once, and at most {most} are allowed")
    known: list[Delegation] = []
    for one in decision.delegations:
        name = _spelling(one.specialist, specialists)
        if name is None:
            hint = nearest(one.specialist, specialists).rstrip(".")
            return ParseFailure(f"there is no specialist {one.specialist!r}; {hint}")
        known.append(one if name == one.specialist else one.model_copy(update={"specialist": name}))
    return decision.model_copy(update={"delegations": tuple(known)})


def decision_schema(specialists: Sequence[str]) -> JsonSchema:
    """The form of a decision as JSON Schema: one object, told apart by `action`, as every provider takes it."""
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
    """A decision that fits `decision_schema`: delegate to every specialist first, then synthesize; else None."""
    specialists = _specialists(dict(schema))
    if schema != decision_schema(specialists):
        return None
    if number > 1:
        return {"action": "synthesize", "synthesis": "All of it, put together."}
    return {"action": "delegate", "delegations": [{"specialist": one, "task": "Your part."} for one in specialists]}


def _specialists(schema: JsonValue) -> list[str]:
    """The names that a schema of a decision allows, in order."""
    for field in ("properties", "delegations", "items", "properties", "specialist", "enum"):
        schema = schema.get(field) if isinstance(schema, dict) else None
    return [name for name in schema if isinstance(name, str)] if isinstance(schema, list) else []


@cache
def _decision() -> TypeAdapter[Decision]:
    one_of = Annotated[Decision, Field(discriminator="action"), BeforeValidator(_usual_form)]
    return TypeAdapter(one_of)


def _usual_form(value: object) -> object:
    """The same decision, written as it should be: the action in small letters, and one delegation as a list."""
    if not isinstance(value, Mapping):
        return value
    written = dict(cast("Mapping[str, JsonValue]", value))
    action = written.get("action")
    if isinstance(action, str):
        written["action"] = action.strip().lower()
    if written.get("action") == "delegate":
        given = written.get("delegations", written)
        written["delegations"] = [given] if isinstance(given, Mapping) else given
    return written


def _spelling(name: str, specialists: Sequence[str]) -> str | None:
    """The specialist that is meant: exactly, or else in other letters, if that fits only one."""
    plain = name.strip()
    if plain in specialists:
        return plain
    like = [one for one in specialists if one.casefold() == plain.casefold()]
    return like[0] if len(like) == 1 else None
