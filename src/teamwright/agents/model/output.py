"""Structured answers: asks a model for JSON that fits a schema, and validates its output.

Messages of `InvalidOutput` are sent to the model as corrections: they are part of prompts and must not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue
from pydantic_ai import ModelRetry, NativeOutput, PromptedOutput, StructuredDict
from pydantic_core import from_json

from teamwright.agents.model.clients import ModelClient
from teamwright.agents.schemas.schema import check
from teamwright.errors import InvalidOutput
from teamwright.values.typed_data import read_as

WRAPPED = "value"


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

    def output_type(self, client: ModelClient) -> Any:
        """The output type for pydantic-ai: the provider's JSON mode, or what its profile prefers.

        Plain text if data is only preferred and the model has no JSON mode.
        """
        shape = StructuredDict(cast("dict[str, Any]", self._sent_schema), name="answer")
        profile = client.model.profile
        if client.native_output:
            return NativeOutput(shape)
        if client.supports_tools or not self.preferred:
            return shape
        if profile.get("supports_json_schema_output"):
            return NativeOutput(shape)
        return PromptedOutput(shape) if profile.get("supports_json_object_output") else str

    @property
    def _sent_schema(self) -> dict[str, JsonValue]:
        """The schema as it is sent to the model."""
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
        self.check(output)
        return output

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

    def validate(self, output: JsonValue) -> JsonValue:
        """Validate the output for pydantic-ai; an invalid one goes back to the model, which costs another request."""
        try:
            self.parse(output)
        except InvalidOutput as error:
            raise ModelRetry(str(error)) from error
        return output
