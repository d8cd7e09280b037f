"""Structured answers: how a model is asked for JSON that fits a schema, and how what it gives is checked."""

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
class Shape:
    """The answer that an agent must give, or one that is only `welcome`: then anything else will do as well.

    What is no object travels wrapped in one, as models give nothing else.
    """

    agent: str
    schema: dict[str, JsonValue]
    model: type[object] | None = None
    welcome: bool = False

    @property
    def wrapped(self) -> bool:
        """Whether the schema describes something other than an object."""
        return self.schema.get("type") != "object"

    def output_type(self, client: ModelClient) -> Any:
        """The output type for pydantic-ai: the provider's own JSON mode, or what its profile prefers.

        It is plain text where data is welcome and the model has no way to give it.
        """
        shape = StructuredDict(cast("dict[str, Any]", self._sent), name="answer")
        profile = client.model.profile
        if client.native_output:
            return NativeOutput(shape)
        if client.takes_tools or not self.welcome:
            return shape
        if profile.get("supports_json_schema_output"):
            return NativeOutput(shape)
        return PromptedOutput(shape) if profile.get("supports_json_object_output") else str

    @property
    def _sent(self) -> dict[str, JsonValue]:
        """The schema as the model is told it."""
        if not self.wrapped:
            return self.schema
        inner = {key: value for key, value in self.schema.items() if key != "$defs"}
        definitions = {"$defs": self.schema["$defs"]} if "$defs" in self.schema else {}
        return {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **definitions}

    def read(self, output: JsonValue) -> JsonValue:
        """The answer itself, or `InvalidOutput` that says how it breaks the schema."""
        what = f"The answer of {self.agent!r}"
        if self.wrapped:
            if not isinstance(output, dict) or WRAPPED not in output:
                raise InvalidOutput(f"{what} does not fit its schema: {WRAPPED!r} is missing.")
            output = output[WRAPPED]
        self.check(output)
        return output

    def found_in(self, text: str) -> JsonValue:
        """The answer that a text holds as JSON, where it fits; else `None`."""
        try:
            data = cast("JsonValue", from_json(text))
            self.check(data)
        except (ValueError, InvalidOutput):
            return None
        return data

    def settled_by(self, text: str) -> bool:
        """Whether a text is the answer: where data is only welcome any words are, and JSON if it fits."""
        if not self.welcome or not text:
            return False
        try:
            from_json(text)
        except ValueError:
            return True
        return not self.wrapped and self.found_in(text) is not None

    def check(self, data: JsonValue) -> None:
        """Hold data against the schema, and against the rules of the model class where one was given."""
        what = f"The answer of {self.agent!r}"
        check(self.schema, data, what)
        if self.model is not None:
            read_as(data, self.model, what)

    def validate(self, output: JsonValue) -> JsonValue:
        """Send an answer that does not fit back to the model, which costs another request."""
        try:
            self.read(output)
        except InvalidOutput as error:
            raise ModelRetry(str(error)) from error
        return output
