"""Checks a declared JSON Schema: it must be valid, refer only to itself, and not expand without bound.

References resolve inside the schema only: nothing is read from a file or fetched. Equal schemas are checked once, since
a manifest may repeat one a hundred times through aliases.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from teamwright.values.names import FieldPath
from teamwright.values.text.display import cut
from teamwright.values.text.timed_regex import pattern_problem

if TYPE_CHECKING:
    from jsonschema.exceptions import SchemaError
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

Schema = Mapping[str, Any]


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
