"""JSON Schema checks on what agents are told and what they say.

`jsonschema` is imported at the first check: whoever declares no schema never pays for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import from_json

from teamwright.errors import AgentError, InvalidInput, InvalidOutput, UsageError
from teamwright.values.turns import Reply

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

SHOWN_BREACHES = 5

Schema = Mapping[str, object]
"""A JSON Schema as a user writes it."""


def as_schema(schema: Schema | type[BaseModel] | None, what: str) -> dict[str, JsonValue] | None:
    """Give the JSON Schema for what a user declared, or raise when it is not a valid one."""
    if schema is None:
        return None
    if isinstance(schema, type):
        return cast("dict[str, JsonValue]", schema.model_json_schema())
    plain = cast("dict[str, JsonValue]", dict(schema))
    _validator(plain, what)
    return plain


def check(schema: Schema, value: JsonValue, what: str) -> None:
    """Raise `InvalidOutput` that lists how `value` breaks the schema; `what` names the value in the message."""
    _check(schema, value, what, InvalidOutput)


def check_input(schema: Schema, text: str, what: str) -> JsonValue:
    """Read `text` as JSON that fits the schema, or raise `InvalidInput`."""
    try:
        value = cast("JsonValue", json.loads(text))
    except ValueError as error:
        raise InvalidInput(f"{what} must be JSON, and is not ({error}).") from error
    _check(schema, value, what, InvalidInput)
    return value


def with_data(reply: Reply, schema: Schema, what: str) -> Reply:
    """The reply with the structured output that its schema asks for, read from its text where it has none."""
    data = reply.data
    if data is None:
        try:
            data = cast("JsonValue", from_json(reply.text))
        except ValueError as error:
            raise InvalidOutput(f"{what} must be JSON, and is not ({error}).") from error
    check(schema, data, what)
    return reply.changed(data=data)


def with_welcome_data(reply: Reply, schema: Schema | None) -> Reply:
    """The reply with the data that its asker would like, where its text is JSON that fits; else as it is."""
    data = None if schema is None or reply.data is not None else fitting(reply.text, schema)
    return reply if data is None else reply.changed(data=data)


def fitting(text: str, schema: Schema) -> JsonValue:
    """What a text holds as JSON, where that fits the schema; else `None`."""
    try:
        data = cast("JsonValue", from_json(text))
        check(schema, data, "The text")
    except (ValueError, InvalidOutput):
        return None
    return data


def _check(schema: Schema, value: JsonValue, what: str, error: type[AgentError]) -> None:
    found = list(_validator(schema, what).iter_errors(cast("Any", value)))
    if not found:
        return
    found.sort(key=lambda breach: [str(part) for part in breach.absolute_path])
    told = [_breach(breach) for breach in found[:SHOWN_BREACHES]]
    if len(found) > SHOWN_BREACHES:
        told.append(f"and {len(found) - SHOWN_BREACHES} more")
    raise error(f"{what} does not fit its schema: {'; '.join(told)}.")


def _breach(breach: ValidationError) -> str:
    place = "/".join(str(part) for part in breach.absolute_path)
    message = breach.message if len(breach.message) <= 200 else breach.message[:199] + "…"
    return f"at {place!r}: {message}" if place else message


def _validator(schema: Schema, what: str) -> Validator:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    plain = dict(schema)
    kind = validator_for(plain, default=Draft202012Validator)
    try:
        kind.check_schema(plain)
    except SchemaError as error:
        raise UsageError(f"The schema of {what} is not a valid JSON Schema: {error.message}.") from error
    return kind(plain)
