"""The JSON Schema of the native manifest. Editors and the loader use this one, so they can't disagree."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import cast

from pydantic import JsonValue

from teamwright.values.specs import JsonSchema, Manifest

IMPORT_PATH = r"^[^\W\d][\w.]*:[^\W\d][\w.]*$"
SECTION_WORDS = {
    "agents": "Agents by name. "
    "One without `model`, `function` and `scripted` gets the model `primary`, else `default`, else the only one.",
    "teams": "Teams by name. A member is an agent or another team.",
    "models": "Models by name: `provider:name`, `local`, `local:weights.gguf`, `scripted:replies.yaml`, or a server.",
    "tools": "Tools by name: `module:function`, or a server that speaks the Model Context Protocol.",
}


def manifest_schema() -> JsonSchema:
    """The JSON Schema of a native manifest, for editors."""
    return copy.deepcopy(_schema())


def definition(name: str) -> Mapping[str, JsonValue]:
    """The schema of one kind of value, such as `AgentSpec`."""
    return part(_schema(), "$defs", name)


def section_value(section: str) -> Mapping[str, JsonValue]:
    """The schema of what stands under each name of a section."""
    return part(_schema(), "properties", section, "additionalProperties")


def part(schema: Mapping[str, JsonValue], *path: str) -> Mapping[str, JsonValue]:
    """The schema at `path`, which is known to be there."""
    for key in path:
        schema = cast("Mapping[str, JsonValue]", schema[key])
    return schema


@cache
def _schema() -> JsonSchema:
    schema = cast("JsonSchema", Manifest.model_json_schema())
    _drop_titles(schema)
    _describe_sections(schema)
    _tell_rules(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Teamwright manifest",
        **schema,
        # Editors accept blocks that only hold anchors; the loader does too.
        "patternProperties": {"^x-": {}},
    }


def _drop_titles(node: JsonValue, *, names: bool = False) -> None:
    """Remove the titles that only repeat the field's name; inside `properties` a `title` would be a field."""
    if isinstance(node, list):
        for item in node:
            _drop_titles(item)
    elif isinstance(node, dict):
        if not names:
            node.pop("title", None)
        for key, value in node.items():
            if key not in {"default", "enum", "const"} or names:
                _drop_titles(value, names=key in {"properties", "$defs"} and not names)


def _describe_sections(schema: JsonSchema) -> None:
    """Give each section one form, names and what stands under them, with the short forms that the loader takes."""
    for section, words in SECTION_WORDS.items():
        field = cast("JsonSchema", part(schema, "properties", section))
        by_pattern = cast("JsonSchema", field.pop("patternProperties", None) or {})
        for pattern, value in by_pattern.items():
            field["propertyNames"] = {"pattern": pattern}
            field["additionalProperties"] = value
        field.pop("default", None)
        field["description"] = words
    tool = cast("JsonSchema", part(schema, "properties", "tools", "additionalProperties"))
    options = cast("list[JsonValue]", tool["anyOf"])
    options.insert(0, {"type": "string", "pattern": IMPORT_PATH, "description": "module:function"})
    agents = cast("JsonSchema", part(schema, "properties", "agents"))
    agents["additionalProperties"] = {"anyOf": [agents["additionalProperties"], {"type": "null"}]}


def _tell_rules(schema: JsonSchema) -> None:
    """Say in the schema what the loader checks beyond types, as far as a schema can."""
    agent = cast("JsonSchema", part(schema, "$defs", "AgentSpec"))
    pairs = [("model", "function"), ("model", "scripted"), ("function", "scripted")]
    agent["not"] = {"anyOf": [{"required": list(pair)} for pair in pairs]}
    team = part(schema, "$defs", "TeamSpec", "properties")
    cast("JsonSchema", team["members"])["minItems"] = 1
    cast("JsonSchema", team["strategy"])["examples"] = ["sequential", "round_robin"]
