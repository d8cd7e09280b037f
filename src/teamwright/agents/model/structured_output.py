"""Structured answers: asks a model for JSON that fits a schema, and validates its output.

Messages of `InvalidOutput` are sent to the model as corrections: they are part of prompts and must not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.envelope_note import schema_with_note
from teamwright.agents.schema_validation import check
from teamwright.errors import InvalidOutput
from teamwright.values.events.event import WRAPPED
from teamwright.values.turns.turn import Turn
from teamwright.values.typed_data import read_as


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """The schema of an agent's answer. If it is only `preferred`, any other answer is accepted too.

    Models return only objects, so a schema of another type is wrapped in one.
    """

    agent: str
    schema: dict[str, JsonValue]
    model: type[object] | None = None
    preferred: bool = False

    @property
    def wrapped(self) -> bool:
        """Whether the schema is not of an object and has to be wrapped in one."""
        return self.schema.get("type") != "object"

    @property
    def sent_schema(self) -> dict[str, JsonValue]:
        if not self.wrapped:
            return self.schema
        inner = {key: value for key, value in self.schema.items() if key != "$defs"}
        definitions = {"$defs": self.schema["$defs"]} if "$defs" in self.schema else {}
        return {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **definitions}

    def parse(self, output: JsonValue) -> JsonValue:
        """Unwrap and validate the model's output; raises `InvalidOutput` with the violations."""
        what = f"The answer of {self.agent!r}"
        if self.wrapped:
            if not isinstance(output, dict) or WRAPPED not in output:
                raise InvalidOutput(f"{what} does not fit its schema: {WRAPPED!r} is missing.")
            output = output[WRAPPED]
        try:
            self.check(output)
        except InvalidOutput:
            # Some models send a list as a text of JSON inside the object.
            data = self.parse_text(output) if self.wrapped and isinstance(output, str) else None
            if data is None:
                raise
            return data
        return output

    def parse_json(self, text: str) -> JsonValue:
        """Parse a text as JSON, unwrap and validate it; raises `InvalidOutput` with what is wrong."""
        try:
            output = cast("JsonValue", from_json(_without_fence(text)))
        except ValueError as error:
            raise InvalidOutput(f"The answer of {self.agent!r} is no JSON: {error}") from error
        return self.parse(output)

    def parse_text(self, text: str) -> JsonValue:
        """Parse a text as JSON; return `None` if it does not fit the schema."""
        try:
            data = cast("JsonValue", from_json(text))
            self.check(data)
        except (ValueError, InvalidOutput):
            return None
        return data

    def is_settled_by(self, text: str) -> bool:
        """Whether a text is acceptable as the answer: if data is only preferred, any plain text, or JSON that fits."""
        if not self.preferred or not text:
            return False
        try:
            from_json(text)
        except ValueError:
            return True
        return not self.wrapped and self.parse_text(text) is not None

    def check(self, data: JsonValue) -> None:
        """Validate data against the schema, and against the model class if one was given."""
        what = f"The answer of {self.agent!r}"
        check(self.schema, data, what)
        if self.model is not None:
            read_as(data, self.model, what)


def answer_schema(
    agent: str, declared: dict[str, JsonValue] | None, model: type[object] | None, turn: Turn
) -> AnswerSchema | None:
    """Return the schema of the answer: the one that the agent declares, else the one that the asker prefers."""
    if declared is not None:
        return AnswerSchema(agent, declared, model)
    if turn.output_schema is None:
        return None
    schema = dict(turn.output_schema)
    return AnswerSchema(
        agent, schema_with_note(schema, turn.envelope_limits) if turn.envelope_limits else schema, preferred=True
    )


def _without_fence(text: str) -> str:
    """Return the JSON inside a fenced block, which some models put around it."""
    text = text.strip()
    if not text.startswith("```") or not text.endswith("```") or "\n" not in text:
        return text
    return text[text.index("\n") + 1 : -3]
