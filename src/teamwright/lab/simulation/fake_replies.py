"""Replies of simulated members: a text of a given length, or data that matches a JSON schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import cast

from pydantic import JsonValue

from teamwright.values.limits.usage import CHARACTERS_PER_TOKEN
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.simulation import Simulation, quantile

FILLER = "and so on, step by step; "
MOST_FILLED = 250_000
"""The longest text, in tokens, that is really written; longer ones are only counted."""
DEEPEST = 8
PASSES, FAILS = frozenset(("pass", "passed", "ok", "approve", "approved", "yes")), frozenset(("revise", "reject", "no"))
"""The words of a verdict: a member that is right passes what it judges, a wrong one rejects it."""


def pad_text(beginning: str, tokens: int) -> str:
    """Return a text of about so many tokens; the beginning is never cut."""
    tokens = min(tokens, MOST_FILLED)
    missing = tokens * CHARACTERS_PER_TOKEN - len(beginning)
    if missing <= 0:
        return beginning
    return f"{beginning} {FILLER * (missing // len(FILLER) + 1)}"[: tokens * CHARACTERS_PER_TOKEN]


@dataclass(frozen=True, slots=True)
class FakeData:
    """Makes data that matches a JSON schema. Formats with a meaning come from the strategy."""

    simulation: Simulation
    right: bool
    chance: Random

    def matching(self, schema: Mapping[str, JsonValue]) -> JsonValue:
        """Return data that matches the schema, as far as its common keywords go."""
        return self._value(schema, DEEPEST)

    def _value(self, schema: Mapping[str, JsonValue], depth: int) -> JsonValue:
        if "const" in schema:
            return schema["const"]
        if choices := _choices(schema):
            return self._choice(choices)
        if options := cast("Sequence[JsonSchema]", schema.get("anyOf") or schema.get("oneOf") or ()):
            return self._value(options[0], depth)
        return self._of_type(schema, depth)

    def _of_type(self, schema: Mapping[str, JsonValue], depth: int) -> JsonValue:
        match schema.get("type"):
            case "object" if depth:
                needed = cast("Sequence[str]", schema.get("required", ()))
                return {name: self._value(_fields(schema).get(name, {}), depth - 1) for name in needed}
            case "array":
                return self._items(schema, depth)
            case "number" | "integer":
                return self._number(schema)
            case "boolean":
                return self.right
            case "string":
                return "as it should be" if self.right else "as it should not be"
            case _:
                return None

    def _choice(self, choices: Sequence[str]) -> str:
        """A random choice; if the choices are a verdict, the one that a right or wrong member gives."""
        verdicts = PASSES if self.right else FAILS
        if any(one.lower() in PASSES for one in choices):
            return next((one for one in choices if one.lower() in verdicts), choices[-1])
        return choices[int(self.chance.random() * len(choices))]

    def _items(self, schema: Mapping[str, JsonValue], depth: int) -> JsonValue:
        least, most = int(cast("int", schema.get("minItems", 0))), int(cast("int", schema.get("maxItems", 1000)))
        wanted = 3.0 if self.simulation.items is None else quantile(self.simulation.items, self.chance.random())
        many = min(most, max(least, round(wanted))) if depth else least
        one = cast("JsonSchema", schema.get("items", {}))
        return [self._numbered(one, place, depth) for place in range(1, many + 1)]

    def _numbered(self, schema: JsonSchema, place: int, depth: int) -> JsonValue:
        """One item of a list; items differ, so that no reader takes two for duplicates."""
        made = self._value(schema, depth - 1)
        return f"part {place}" if made is None or (isinstance(made, str) and not _choices(schema)) else made

    def _number(self, schema: Mapping[str, JsonValue]) -> JsonValue:
        low, high = cast("float", schema.get("minimum", 0)), cast("float", schema.get("maximum", 1))
        return high if self.right else low


def _fields(schema: Mapping[str, JsonValue]) -> dict[str, JsonSchema]:
    return cast("dict[str, JsonSchema]", schema.get("properties", {}))


def _choices(schema: Mapping[str, JsonValue]) -> list[str]:
    return [one for one in cast("Sequence[JsonValue]", schema.get("enum", ())) if isinstance(one, str)]
