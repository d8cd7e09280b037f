"""Whether a JSON Schema that somebody declares may be used: valid, without references to elsewhere, and not a bomb.

A reference resolves inside its document only: nothing is read from a file or fetched. Validity is looked at once for
schemas that are equal, since a manifest may repeat one a hundred times through aliases.
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
"""Keywords whose schemas are held against the same value, not against a part of it."""
MOST_IN_PLACE = 10_000
"""How many schemas may be held against one value, references followed."""
MOST_SHOWN = 60

Schema = Mapping[str, Any]


class SchemaFault(NamedTuple):
    """What is wrong with a schema, and where in it."""

    text: str
    at: FieldPath = ()


def schema_fault(schema: Schema) -> SchemaFault | None:
    """What keeps a schema from being used, or None; equal schemas are looked at once."""
    try:
        text = json.dumps(schema, sort_keys=True, default=repr)
    except (TypeError, ValueError, RecursionError) as error:
        return SchemaFault(f"it is not JSON: {error}")
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return _fault(_Keyed(digest, schema))


class _Keyed:
    """A schema that is found in a cache by its digest."""

    __slots__ = ("digest", "schema")

    def __init__(self, digest: bytes, schema: Schema) -> None:
        self.digest, self.schema = digest, schema

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Keyed) and self.digest == other.digest


@lru_cache(maxsize=512)
def _fault(keyed: _Keyed) -> SchemaFault | None:
    schema, keyed.schema = keyed.schema, {}  # the cache keeps the digest alone
    return _invalid(schema) or _References(schema).fault()


def validator_class(schema: Schema) -> type[Validator]:
    """The validators of a schema's dialect; of one that is not known, those of the newest."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    dialect = schema.get("$schema")
    return validator_for({"$schema": dialect} if isinstance(dialect, str) else {}, default=Draft202012Validator)


def _invalid(schema: Schema) -> SchemaFault | None:
    from jsonschema.exceptions import SchemaError

    kind = cast("Any", validator_class(schema))
    try:
        kind.check_schema(dict(schema), format_checker=kind.FORMAT_CHECKER)
    except SchemaError as error:
        return SchemaFault(_words(error), tuple(error.absolute_path))
    except RecursionError:
        return SchemaFault("it is nested too deeply")
    return None


def _words(error: SchemaError) -> str:
    """What is wrong, in our own words: the keyword, what stands there, and what could."""
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
            return "a list in which nothing stands twice"
        case _:
            return ""


_KINDS = {
    "array": "a list", "boolean": "true or false", "integer": "a whole number", "null": "null", "number": "a number",
    "object": "a mapping", "string": "text",
}  # fmt: skip


def _pattern_fault(places: Sequence[tuple[Schema, FieldPath]]) -> SchemaFault | None:
    """What is wrong with the regular expressions of a schema: all are searched for within a time limit."""
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
    """The references of one schema, followed within it."""

    def __init__(self, schema: Schema) -> None:
        self._root = schema
        self._anchors: dict[str, Schema] = {}
        self._known: dict[int, Schema] = {}

    def fault(self) -> SchemaFault | None:
        places = list(self._all())
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
        return _pattern_fault(places) or self._bomb(places)

    def _all(self) -> Iterator[tuple[Schema, FieldPath]]:
        """Every schema within this one; aliases make one appear at several places, and it is looked at once."""
        waiting: list[tuple[object, FieldPath]] = [(self._root, ())]
        while waiting:
            node, at = waiting.pop()
            if isinstance(node, Mapping) and id(cast("Schema", node)) not in self._known:
                schema = cast("Schema", node)
                self._known[id(schema)] = schema
                yield schema, at
                waiting += [(inner, (*at, *path)) for _, inner, path in _parts(schema)]

    def _target(self, reference: str) -> Schema | None:
        """The schema that a reference within the document means."""
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

    def _bomb(self, places: list[tuple[Schema, FieldPath]]) -> SchemaFault | None:
        """Refuse references that never come to an end, or that multiply: both are told by one walk from the leaves."""
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
                        return SchemaFault("its references lead back to where they began, without an end", at)
                    path[id(node)] = (node, self._same_value(node))
                key, (node, left) = next(reversed(path.items()))
                if left:
                    entered.append(left.pop())
                    continue
                weights[key] = 1 + sum(weights[id(one)] for one in self._same_value(node))
                if weights[key] > MOST_IN_PLACE:
                    text = f"it holds more than {MOST_IN_PLACE} schemas against one value, references followed"
                    return SchemaFault(text, at)
                del path[key]
        return None

    def _same_value(self, schema: Schema) -> list[Schema]:
        """The schemas that are held against the same value as this one."""
        found = [
            cast("Schema", inner)
            for word, inner, _ in _parts(schema)
            if word in IN_PLACE and isinstance(inner, Mapping)
        ]
        for keyword in REFERENCES:
            if isinstance(target := schema.get(keyword), str) and (meant := self._target(target)) is not None:
                found.append(meant)
                self._known.setdefault(id(meant), meant)  # so that its identity stays its own
        return found


def _parts(schema: Schema) -> Iterator[tuple[str, object, FieldPath]]:
    """The schemas directly within one: under which keyword, and at which path."""
    for word, value in schema.items():
        if word in MAPPINGS and isinstance(value, Mapping):
            yield from ((word, inner, (word, str(key))) for key, inner in cast("Schema", value).items())
        elif word in LISTS and isinstance(value, list):
            yield from ((word, inner, (word, index)) for index, inner in enumerate(cast("list[object]", value)))
        elif word in SCHEMAS:
            yield word, value, (word,)
