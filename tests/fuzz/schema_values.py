"""Draws values by a JSON Schema: mostly what it allows, now and then what it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, cast

from pydantic import JsonValue

from tests.fuzz.odd_values import odd_text, odd_value

Schema = Mapping[str, Any]


class SchemaValues:
    """Values of one schema. `texts` are drawn for plain strings, `names` where the schema asks for a name."""

    def __init__(self, schema: Schema, *, texts: Sequence[str], names: Sequence[str], wrong: float = 0.02) -> None:
        self._root, self._texts, self._names, self._wrong = schema, texts, names, wrong

    def draw(self, random: Random, schema: Schema | None = None, depth: int = 7) -> JsonValue:
        """A value of the schema, or of a part of it."""
        part = self._root if schema is None else schema
        if random.random() < self._wrong:
            return odd_value(random)
        if "$ref" in part:
            return self.draw(random, self._definition(part["$ref"]), depth)
        for word in ("anyOf", "oneOf"):
            if word in part and "properties" not in part:
                return self.draw(random, random.choice(part[word]), depth)
        if "const" in part:
            return part["const"]
        if "enum" in part:
            return random.choice(part["enum"])
        return self._typed(random, part, depth)

    def _definition(self, reference: str) -> Schema:
        found: Any = self._root
        for step in reference.removeprefix("#/").split("/"):
            found = found[step]
        return cast("Schema", found)

    def _typed(self, random: Random, part: Schema, depth: int) -> JsonValue:
        kind = part.get("type")
        match random.choice(cast("list[str]", kind)) if isinstance(kind, list) else kind:
            case "object":
                return self._object(random, part, depth)
            case "array":
                return self._array(random, part, depth)
            case "string":
                return self._text(random, part)
            case "integer":
                return int(self._number(random, part))
            case "number":
                return self._number(random, part)
            case "boolean":
                return random.random() < 0.5
            case "null":
                return None
            case _:
                return odd_value(random, 1)

    def _object(self, random: Random, part: Schema, depth: int) -> JsonValue:
        properties, needed = part.get("properties", {}), part.get("required", ())
        likely = 0.35 if depth > 3 else 0.12
        value = {
            name: self.draw(random, one, depth - 1)
            for name, one in properties.items()
            if name in needed or (depth > 0 and random.random() < likely)
        }
        more = part.get("additionalProperties")
        if isinstance(more, dict) and depth > 0:
            for _ in range(random.randint(1, 4)):
                value[random.choice(self._names)] = self.draw(random, cast("Schema", more), depth - 1)
        return value

    def _array(self, random: Random, part: Schema, depth: int) -> JsonValue:
        if prefix := part.get("prefixItems"):
            return [self.draw(random, one, depth - 1) for one in prefix]
        least = part.get("minItems", 0)
        count = least if depth <= 0 else random.randint(least, max(least, 4))
        return [self.draw(random, part.get("items", {}), depth - 1) for _ in range(count)]

    def _text(self, random: Random, part: Schema) -> JsonValue:
        if random.random() < 0.02:
            return odd_text(random)
        if "names" in part or "pattern" in part or random.random() < 0.5:
            return random.choice(self._names)
        return random.choice(self._texts)

    def _number(self, random: Random, part: Schema) -> float:
        low = part.get("minimum", part.get("exclusiveMinimum", 0))
        high = part.get("maximum", part.get("exclusiveMaximum", random.choice((1, 2, 10, 100, 10**6))))
        roll = random.random()
        if roll < 0.2:
            return low
        if roll < 0.3:
            return high
        return random.uniform(low, max(low, high)) if roll < 0.6 else random.randint(int(low), max(int(low), int(high)))
