"""Validates the input and output of agents against JSON Schemas, with bounded work.

`jsonschema` is imported at the first check, so that agents without a schema never pay for it. Messages of
`InvalidOutput` are sent to models as corrections: they are part of prompts and must not change. A schema that refers to
itself twice doubles the work with each level of the value: here, the number of checks is at most linear in the size of
the value, whatever the schema.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.schema_declaration import schema_fault, validator_class
from teamwright.errors import AgentError, InvalidInput, InvalidOutput, PatternTooSlow, UsageError
from teamwright.values.text.display import cut
from teamwright.values.text.timed_regex import PatternSearch
from teamwright.values.turns.turn import Reply
from teamwright.values.typed_data import is_data_type, schema_of

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator


LEAST_CHECKS = 100_000
CHECKS_PER_VALUE = 100
MOST_CHECKS = 2_000_000
COSTS = {"$ref": 10, "$dynamicRef": 10, "$recursiveRef": 10}
"""The cost of following a reference, which takes longer than any other check; a list costs its length."""

MOST_SHOWN = 80
SHOWN_EXTRAS = 5

Keyword = Callable[..., "Iterator[ValidationError] | None"]

_CHECKS_LEFT: ContextVar[list[int] | None] = ContextVar("teamwright_schema_checks_left", default=None)

_PATTERN_SEARCH: ContextVar[PatternSearch | None] = ContextVar("teamwright_schema_patterns", default=None)


class TooMuchWork(Exception):
    """Validating a value takes more checks than its size allows."""


@contextmanager
def bounded_checks(value: object) -> Generator[None]:
    """Within this block, limit the number of checks to what a value of this size allows."""
    before = _CHECKS_LEFT.set([min(MOST_CHECKS, LEAST_CHECKS + CHECKS_PER_VALUE * _count_values(value))])
    searches = _PATTERN_SEARCH.set(PatternSearch())
    try:
        yield
    finally:
        _CHECKS_LEFT.reset(before)
        _PATTERN_SEARCH.reset(searches)


@cache
def counting_validator(kind: type[Validator]) -> type[Validator]:
    """Return a subclass of this validator that counts its checks."""
    from jsonschema import validators

    keywords = cast("Mapping[str, Keyword]", kind.VALIDATORS)
    own = {name: _counted(keyword, COSTS.get(name, 1)) for name, keyword in keywords.items()}
    own["pattern"] = _counted(_pattern, 1)
    for name, keyword in {
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }.items():
        if name in own:
            own[name] = _counted(keyword, 1)
    if "uniqueItems" in own:
        own["uniqueItems"] = _unique_items
    return cast("type[Validator]", cast("Any", validators).extend(kind, own))


def _counted(keyword: Keyword, cost: int) -> Keyword:
    def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError] | None:
        _count_checks(len(cast("list[Any]", value)) if isinstance(value, list) else cost)
        return keyword(validator, value, instance, schema)

    return check


def _pattern(validator: Any, value: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    """Search within the time limit of the whole validation."""
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "string") and not _matches(value, instance):
        yield ValidationError(f"{cut(instance, MOST_SHOWN)!r} does not match {cut(value, MOST_SHOWN)!r}")


def _pattern_properties(validator: Any, value: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, subschema in value.items():
        for key, item in instance.items():
            _count_checks(1)
            if _matches(pattern, key):
                yield from validator.descend(item, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    from jsonschema.exceptions import ValidationError

    if not validator.is_type(instance, "object"):
        return
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extras: list[str] = []
    for key in instance:
        _count_checks(1 + len(patterns))
        if key not in properties and not any(_matches(pattern, key) for pattern in patterns):
            extras.append(key)
    if validator.is_type(value, "object"):
        for extra in extras:
            yield from validator.descend(instance[extra], value, path=extra)
    elif not value and extras:
        shown = ", ".join(repr(cut(key, MOST_SHOWN)) for key in sorted(extras)[:SHOWN_EXTRAS])
        more = f" and {len(extras) - SHOWN_EXTRAS} more" if len(extras) > SHOWN_EXTRAS else ""
        verb = "was" if len(extras) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({shown}{more} {verb} unexpected)")


def _matches(pattern: str, text: str) -> bool:
    search = _PATTERN_SEARCH.get()
    return (PatternSearch() if search is None else search).found(pattern, text)


def _count_checks(checks: int) -> None:
    left = _CHECKS_LEFT.get()
    if left is None:
        return
    left[0] -= checks
    if left[0] < 0:
        raise TooMuchWork


def _unique_items(validator: Any, value: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    """Compare items by their JSON text: jsonschema compares each pair if they can't be sorted."""
    from jsonschema.exceptions import ValidationError

    if not value or not validator.is_type(instance, "array"):
        return
    seen: set[str] = set()
    for item in instance:
        _count_checks(1)
        text = json.dumps(_normalized(item), sort_keys=True)
        if text in seen:
            yield ValidationError("the items of this list are not all different")
            return
        seen.add(text)


def _normalized(value: object) -> object:
    """Normalize numbers so that equal ones, such as 1 and 1.0, have the same text."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_normalized(item) for item in cast("list[object]", value)]
        case dict():
            return {key: _normalized(item) for key, item in cast("dict[str, object]", value).items()}
        case _:
            return value


def _count_values(value: object) -> int:
    """Count the values within a value, itself included."""
    count = 0
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        count += 1
        if isinstance(one, Mapping):
            waiting.extend(cast("Mapping[str, object]", one).values())
        elif isinstance(one, list | tuple):
            waiting.extend(cast("list[object]", one))
    return count


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
