"""Structured answers: how a model is asked for JSON that fits a schema, and how what it gives is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_ai import ModelRetry, NativeOutput, StructuredDict

from teamwright.agents.schema import check
from teamwright.errors import InvalidOutput

WRAPPED = "value"


@dataclass(frozen=True, slots=True)
class Shape:
    """The answer that an agent must give. What is no object travels wrapped in one, as models give nothing else."""

    agent: str
    schema: dict[str, JsonValue]
    model: type[BaseModel] | None = None

    @property
    def wrapped(self) -> bool:
        """Whether the schema describes something other than an object."""
        return self.schema.get("type") != "object"

    def output_type(self, native: bool) -> Any:
        """The output type for pydantic-ai: the provider's own JSON mode, or what its profile prefers."""
        schema = self.schema
        if self.wrapped:
            inner = {key: value for key, value in schema.items() if key != "$defs"}
            definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
            schema = {"type": "object", "properties": {WRAPPED: inner}, "required": [WRAPPED], **definitions}
        shape = StructuredDict(cast("dict[str, Any]", schema), name="answer")
        return NativeOutput(shape) if native else shape

    def read(self, output: JsonValue) -> JsonValue:
        """The answer itself, or `InvalidOutput` that says how it breaks the schema."""
        what = f"The answer of {self.agent!r}"
        if self.wrapped:
            if not isinstance(output, dict) or WRAPPED not in output:
                raise InvalidOutput(f"{what} does not fit its schema: {WRAPPED!r} is missing.")
            output = output[WRAPPED]
        self.check(output)
        return output

    def check(self, data: JsonValue) -> None:
        """Hold data against the schema, and against the rules of the model class where one was given."""
        what = f"The answer of {self.agent!r}"
        check(self.schema, data, what)
        if self.model is not None:
            try:
                self.model.model_validate(data)
            except ValidationError as error:
                raise InvalidOutput(f"{what} does not fit {self.model.__name__!r}: {error}") from error

    def validate(self, output: JsonValue) -> JsonValue:
        """Send an answer that does not fit back to the model, which costs another request."""
        try:
            self.read(output)
        except InvalidOutput as error:
            raise ModelRetry(str(error)) from error
        return output
