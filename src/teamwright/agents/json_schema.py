"""JSON Schemas of agents: a declared one refers only to itself, and its input and output are checked with bounded work.

References resolve inside the schema only: nothing is read from a file or fetched. `jsonschema` is imported at the first
check, so that agents without a schema never pay for it. Messages of `InvalidOutput` are sent to models as corrections:
they are part of prompts and must not change.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.errors import AgentError, InvalidInput, InvalidOutput, PatternTooSlow, UsageError
from teamwright.values.names import FieldPath
from teamwright.values.text.display import cut
from teamwright.values.text.timed_regex import PatternSearch, pattern_problem
from teamwright.values.turns.turn import Reply
from teamwright.values.typed_data import is_data_type, schema_of

if TYPE_CHECKING:
    from jsonschema.exceptions import SchemaError, ValidationError
    from jsonschema.protocols import Validator


REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
SCHEMAS = (
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
LISTS = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
MAPPINGS = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")
IN_PLACE = {"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
"""Keywords whose schemas apply to the same value, not to a part of it."""
MOST_IN_PLACE = 10_000
"""How many schemas may apply to one value, including references."""
MOST_SHOWN = 60

LONGEST_SHOWN = 80
SHOWN_EXTRAS = 5
SHOWN_BREACHES = 5
LONGEST_BREACH = 200
MOST_BREACHES = 100
"""How many breaches are collected: each may contain the text of the whole value."""
LEAST_CHECKS = 100_000
CHECKS_PER_VALUE = 100
MOST_CHECKS = 2_000_000
"""A schema that refers to itself twice doubles the work with each level of the value: the number of checks is at most
linear in the size of the value, whatever the schema."""
COSTS = {"$ref": 10, "$dynamicRef": 10, "$recursiveRef": 10}
"""The cost of following a reference, which takes longer than any other check; a list costs its length."""

Schema = Mapping[str, Any]
"""A JSON Schema as a user writes it."""
Keyword = Callable[..., "Iterator[ValidationError] | None"]

_CHECKS_LEFT: ContextVar[list[int] | None] = ContextVar("teamwright_schema_checks_left", default=None)
_PATTERN_SEARCH: ContextVar[PatternSearch | None] = ContextVar("teamwright_schema_patterns", default=None)


class SchemaFault(NamedTuple):
    """A mistake in a schema, and its path."""

    text: str
    at: FieldPath = ()


def schema_fault(schema: Schema) -> SchemaFault | None:
    """Return the first mistake in a schema, or `None`; equal schemas are checked once."""
    try:
        text = json.dumps(schema, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError) as error:
        return SchemaFault(f"it is not JSON: {error}")
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return _cached_fault(_CacheKey(digest, schema))


class _CacheKey:
    """The cache key of a schema, which compares by digest."""

    __slots__ = ("digest", "schema")

    def __init__(self, digest: bytes, schema: Schema) -> None:
        self.digest, self.schema = digest, schema

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _CacheKey) and self.digest == other.digest


@lru_cache(maxsize=512)
def _cached_fault(keyed: _CacheKey) -> SchemaFault | None:
    schema, keyed.schema = keyed.schema, {}  # the cache keeps the digest alone
    return _validity_fault(schema) or _References(schema).fault()


def validator_class(schema: Schema) -> type[Validator]:
    """Return the validator class for a schema's dialect; the newest for an unknown one."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    dialect = schema.get("$schema")
    return validator_for({"$schema": dialect} if isinstance(dialect, str) else {}, default=Draft202012Validator)


def _validity_fault(schema: Schema) -> SchemaFault | None:
    from jsonschema.exceptions import SchemaError

    kind = cast("Any", validator_class(schema))
    try:
        kind.check_schema(dict(schema), format_checker=kind.FORMAT_CHECKER)
    except SchemaError as error:
        return SchemaFault(_describe_error(error), tuple(error.absolute_path))
    except RecursionError:
        return SchemaFault("it is nested too deeply")
    return None


def _describe_error(error: SchemaError) -> str:
    """Describe a schema error: where it is, the value found, and what is expected."""
    found = cut(json.dumps(error.instance, ensure_ascii=False, default=repr), MOST_SHOWN)
    place = "/".join(str(part) for part in error.absolute_path)
    where = f"at {place!r}, {found}" if place else found
    expected = _expected(error.validator, error.validator_value)
    if error.validator in ("anyOf", "oneOf") and error.absolute_path and error.absolute_path[-1] == "type":
        expected = "one of array, boolean, integer, null, number, object and string, or a list of these"
    return f"{where} does not fit there" + (f": it must be {expected}" if expected else "")


def _expected(keyword: object, value: object) -> str:
    match keyword:
        case "type":
            kinds = cast("list[str]", value) if isinstance(value, list) else [str(value)]
            return " or ".join(_KINDS.get(kind, kind) for kind in kinds)
        case "enum" if isinstance(value, list):
            return f"one of {', '.join(map(str, cast('list[object]', value)))}"
        case "format":
            return f"a {value}" if value != "regex" else "a regular expression"
        case "minimum" | "exclusiveMinimum":
            return f"{'at least' if keyword == 'minimum' else 'more than'} {value}"
        case "minItems":
            return "a list that is not empty"
        case "uniqueItems":
            return "a list without duplicates"
        case _:
            return ""


_KINDS = {
    "array": "a list", "boolean": "true or false", "integer": "a whole number", "null": "null", "number": "a number",
    "object": "a mapping", "string": "text",
}  # fmt: skip


def _pattern_fault(places: Sequence[tuple[Schema, FieldPath]]) -> SchemaFault | None:
    """Return the first invalid regular expression; also reject a combination that would bypass the time limit."""
    keyed = any("patternProperties" in node for node, _ in places)
    for node, at in places:
        properties = node.get("patternProperties")
        written = [node.get("pattern"), *(cast("Schema", properties) if isinstance(properties, Mapping) else ())]
        for pattern in written:
            if isinstance(pattern, str) and (problem := pattern_problem(pattern)):
                return SchemaFault(f"{cut(pattern, MOST_SHOWN)!r} is not a regular expression: {problem}", at)
        if keyed and "unevaluatedProperties" in node:
            text = "unevaluatedProperties can't be used together with patternProperties; use additionalProperties"
            return SchemaFault(text, (*at, "unevaluatedProperties"))
    return None


class _References:
    """Follows the references of one schema within it."""

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._anchors: dict[str, Schema] = {}
        self._known: dict[int, Schema] = {}

    def fault(self) -> SchemaFault | None:
        places = list(self._walk())
        for node, _ in places:
            for keyword in ("$anchor", "$dynamicAnchor"):
                if isinstance(name := node.get(keyword), str):
                    self._anchors.setdefault(name, node)
        for node, at in places:
            for keyword in REFERENCES:
                target = node.get(keyword)
                if keyword not in node:
                    continue
                if not isinstance(target, str) or not target.startswith("#"):
                    text = f"{keyword} may only point into the schema itself, as '#/$defs/name'; this is"
                    return SchemaFault(f"{text} {cut(str(target), MOST_SHOWN)!r}", (*at, keyword))
                if self._target(target) is None:
                    return SchemaFault(f"{keyword} points to {cut(target, MOST_SHOWN)!r}, which is not there", at)
        return _pattern_fault(places) or self._expansion_fault(places)

    def _walk(self) -> Iterator[tuple[Schema, FieldPath]]:
        """Yield every subschema with its path; one that appears in several places through aliases only once."""
        waiting: list[tuple[object, FieldPath]] = [(self._root, ())]
        while waiting:
            node, at = waiting.pop()
            if isinstance(node, Mapping) and id(cast("Schema", node)) not in self._known:
                schema = cast("Schema", node)
                self._known[id(schema)] = schema
                yield schema, at
                waiting += [(inner, (*at, *path)) for _, inner, path in _subschemas(schema)]

    def _target(self, reference: str) -> Schema | None:
        """Return the schema that a reference points to, or `None`."""
        from urllib.parse import unquote

        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            return self._anchors.get(pointer)
        node = cast("object", self._root)
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = cast("Schema", node)[key]
            elif isinstance(node, list) and key.isdigit() and int(key) < len(cast("list[object]", node)):
                node = cast("list[object]", node)[int(key)]
            else:
                return None
        return cast("Schema", node) if isinstance(node, Mapping) else {}

    def _expansion_fault(self, places: list[tuple[Schema, FieldPath]]) -> SchemaFault | None:
        """Reject references that form a cycle or expand too much; one walk from the leaves finds both."""
        weights: dict[int, int] = {}
        for start, at in places:
            path: dict[int, tuple[Schema, list[Schema]]] = {}
            entered = [start]
            while entered or path:
                if entered:
                    node = entered.pop()
                    if id(node) in weights:
                        continue
                    if id(node) in path:
                        return SchemaFault("its references form a cycle without end", at)
                    path[id(node)] = (node, self._in_place_schemas(node))
                key, (node, left) = next(reversed(path.items()))
                if left:
                    entered.append(left.pop())
                    continue
                weights[key] = 1 + sum(weights[id(one)] for one in self._in_place_schemas(node))
                if weights[key] > MOST_IN_PLACE:
                    text = f"it applies more than {MOST_IN_PLACE} schemas to one value, including references"
                    return SchemaFault(text, at)
                del path[key]
        return None

    def _in_place_schemas(self, schema: Schema) -> list[Schema]:
        """The schemas that apply to the same value as this one."""
        found = [
            cast("Schema", inner)
            for word, inner, _ in _subschemas(schema)
            if word in IN_PLACE and isinstance(inner, Mapping)
        ]
        for keyword in REFERENCES:
            if isinstance(target := schema.get(keyword), str) and (meant := self._target(target)) is not None:
                found.append(meant)
                self._known.setdefault(id(meant), meant)  # keeps it alive, so that its id is not reused
        return found


def _subschemas(schema: Schema) -> Iterator[tuple[str, object, FieldPath]]:
    """Yield the direct subschemas of a schema, each with its keyword and its path."""
    for word, value in schema.items():
        if word in MAPPINGS and isinstance(value, Mapping):
            yield from ((word, inner, (word, str(key))) for key, inner in cast("Schema", value).items())
        elif word in LISTS and isinstance(value, list):
            yield from ((word, inner, (word, index)) for index, inner in enumerate(cast("list[object]", value)))
        elif word in SCHEMAS:
            yield word, value, (word,)


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
        yield ValidationError(f"{cut(instance, LONGEST_SHOWN)!r} does not match {cut(value, LONGEST_SHOWN)!r}")


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
        shown = ", ".join(repr(cut(key, LONGEST_SHOWN)) for key in sorted(extras)[:SHOWN_EXTRAS])
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


def with_data(reply: Reply, schema: Schema | None, what: str, preferred: Schema | None = None) -> Reply:
    """Return the reply with data that fits its schema, parsed from its text if it has none; raises `InvalidOutput`.

    Without a schema, its data is what fits the preferred one, if anything does.
    """
    if schema is None:
        return with_preferred_data(reply, preferred)
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
