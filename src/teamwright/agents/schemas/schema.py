"""Validates the input and output of agents against JSON Schemas.

`jsonschema` is imported at the first check, so that agents without a schema never pay for it. Messages of
`InvalidOutput` are sent to models as corrections: they are part of prompts and must not change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.schemas.declaration import schema_fault, validator_class
from teamwright.agents.schemas.validation_limit import TooMuchWork, bounded_checks, counting_validator
from teamwright.errors import AgentError, InvalidInput, InvalidOutput, PatternTooSlow, UsageError
from teamwright.values.text.display import cut
from teamwright.values.turns.turn import Reply
from teamwright.values.typed_data import is_data_type, schema_of

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

SHOWN_BREACHES = 5
LONGEST_BREACH = 200
MOST_BREACHES = 100
"""How many breaches are collected: each may contain the text of the whole value."""

Schema = Mapping[str, object]
"""A JSON Schema as a user writes it."""


def as_schema(schema: Schema | type[object] | None, what: str) -> dict[str, JsonValue] | None:
    """Return the JSON Schema for a declared schema or class; raises `UsageError` if it is not valid."""
    if schema is None:
        return None
    if is_data_type(schema):
        return schema_of(cast("type[object]", schema))
    if not isinstance(schema, Mapping):
        raise UsageError(f"The schema of {what} must be a JSON Schema or a class, and is {schema!r}.")
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
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} must be JSON, and is not ({error}).") from error
    _check(schema, value, what, InvalidInput)
    return value


def with_data(reply: Reply, schema: Schema, what: str) -> Reply:
    """Return the reply with data that fits its schema, parsed from its text if it has none; raises `InvalidOutput`."""
    data = reply.data
    if data is None:
        try:
            data = _read(reply.text)
        except ValueError as error:
            raise InvalidOutput(f"{what} must be JSON, and is not ({error}).") from error
    check(schema, data, what)
    return reply.changed(data=data)


def with_preferred_data(reply: Reply, schema: Schema | None) -> Reply:
    """Return the reply with data parsed from its text if that fits the preferred schema; else unchanged."""
    data = None if schema is None or reply.data is not None else parse_valid(reply.text, schema)
    return reply if data is None else reply.changed(data=data)


def parse_valid(text: str, schema: Schema) -> JsonValue:
    """Parse a text as JSON; return `None` if it does not fit the schema."""
    try:
        data = _read(text)
        check(schema, data, "The text")
    except (ValueError, InvalidOutput):
        return None
    return data


def _read(text: str) -> JsonValue:
    """Parse a text as JSON; raises `ValueError`, also for a lone surrogate."""
    try:
        return cast("JsonValue", from_json(text))
    except TypeError as error:
        raise ValueError("it has half of a surrogate pair") from error


def _check(schema: Schema, value: JsonValue, what: str, error: type[AgentError]) -> None:
    found = _breaches(schema, value, what, error)
    if not found:
        return
    found.sort(key=lambda breach: [str(part) for part in breach.absolute_path])
    listed = [_breach(breach) for breach in found[:SHOWN_BREACHES]]
    if len(found) > SHOWN_BREACHES:
        more = len(found) - SHOWN_BREACHES
        listed.append(f"and {more} more" if len(found) < MOST_BREACHES else f"and at least {more} more")
    raise error(f"{what} does not fit its schema: {'; '.join(listed)}.")


def _breaches(schema: Schema, value: JsonValue, what: str, error: type[AgentError]) -> list[ValidationError]:
    from referencing.exceptions import Unresolvable

    validator = _validator(schema, what)
    try:
        with bounded_checks(value):
            return list(islice(validator.iter_errors(cast("Any", value)), MOST_BREACHES))
    except TooMuchWork:
        raise error(f"{what} can't be checked: its schema asks for far more checks than it has values.") from None
    except RecursionError:
        raise error(f"{what} can't be checked: it is nested too deeply.") from None
    except PatternTooSlow as slow:
        raise error(f"{what} can't be checked: {slow}") from None
    except (Unresolvable, ArithmeticError) as reason:
        raise error(f"{what} can't be checked against its schema ({type(reason).__name__}).") from None


def _breach(breach: ValidationError) -> str:
    place = "/".join(str(part) for part in breach.absolute_path)
    message = cut(breach.message, LONGEST_BREACH)
    return f"at {place!r}: {message}" if place else message


def _validator(schema: Schema, what: str) -> Validator:
    """Return a validator that fetches nothing: references out of the schema are refused."""
    from referencing import Registry

    plain = dict(schema)
    if fault := schema_fault(plain):
        raise UsageError(f"The schema of {what} is not a valid JSON Schema: {fault.text}.")
    return counting_validator(validator_class(plain))(plain, registry=Registry())
