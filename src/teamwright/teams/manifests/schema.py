"""The JSON Schema of the native manifest, which editors and the loader share, so that they can't disagree."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from typing import cast

from pydantic import JsonValue

from teamwright.agents.tools.registry import OWN, absent_kind_names, find_kind, kind_names
from teamwright.documents.schema_check import IMPORT_PATH
from teamwright.errors import UsageError
from teamwright.strategies.registry import find_strategy, options_schema, strategy_names
from teamwright.values.retries import RetryPolicy
from teamwright.values.specs.manifest import JsonSchema, Manifest
from teamwright.values.specs.model_settings import MAX_TOKENS, ModelSettings, settings_schema
from teamwright.values.specs.plan import BOOKKEEPING, Step

AGENT, MODEL = "agent", "model"
SECTION_WORDS = {
    "agents": "Agents by name. "
    "One without `model`, `function`, `a2a` and `acp` gets the model `primary`, else `default`, else the only one.",
    "teams": "Teams by name. A member is an agent or another team.",
    "models": "Models by name: `provider:name`, `local`, `local:weights.gguf`, `scripted:replies.yaml`, the same under"
    " `model` with a rate limit, or a server.",
    "tools": "Tools by name: `module:function`, or a server that speaks the Model Context Protocol.",
}

INSTEAD_IN_TEAMS: dict[str, JsonValue] = {
    "agents": "list their names under members",
    "helpers": "declare them under agents, and name them in the strategy's block, such as  selector: {agent: NAME}",
}
"""What to write for fields that users expect in a team."""
INSTEAD_IN_AGENTS: dict[str, JsonValue] = {
    name: f"write  settings: {{{name}: …}}" for name in ModelSettings.__annotations__ if name != MAX_TOKENS
}
"""What to write for settings of a model that users expect in an agent."""
TASKS_WORDS = "A plan: the team that executes these tasks has the name of the file."


def manifest_schema() -> JsonSchema:
    """The JSON Schema of a native manifest, for editors, with the options of every installed strategy."""
    schema = copy.deepcopy(_schema())
    team = cast("JsonSchema", part(schema, "$defs", "TeamSpec"))
    for name in strategy_names():
        _add_block(schema, team, name)
    for name in kind_names():
        if name not in OWN:
            _add_tool_settings(schema, name)
    _add_model_settings(schema)
    cast("JsonSchema", part(team, "properties", "strategy"))["examples"] = [*strategy_names()]
    _drop_bookkeeping(schema)
    return schema


def _drop_bookkeeping(schema: JsonSchema) -> None:
    """Remove what a run keeps of a step, which the loader refuses in a manifest."""
    steps = [part(schema, "properties", "tasks", "items")]
    steps += [cast("JsonSchema", one) for name, one in part(schema, "$defs").items() if name.endswith(".Step")]
    for step in steps:
        for name in BOOKKEEPING:
            cast("JsonSchema", step["properties"]).pop(name, None)


def definitions() -> Mapping[str, JsonValue]:
    """The definitions of the schema, such as `AgentSpec`."""
    return part(_schema(), "$defs")


def section_value(section: str) -> Mapping[str, JsonValue]:
    """The schema of the values of a section; for strategy blocks, it knows only their names."""
    if section == "agents":
        return {**part(definitions(), "AgentSpec"), "instead": INSTEAD_IN_AGENTS}
    if section != "teams":
        return part(_schema(), "properties", section, "additionalProperties")
    team = part(definitions(), "TeamSpec")
    fields: JsonSchema = {**{name: {} for name in strategy_names()}, **part(team, "properties")}
    return {**team, "properties": fields, "instead": INSTEAD_IN_TEAMS}


def takes_model(strategy: str) -> bool:
    """Whether a strategy's options name an agent that a model may replace."""
    try:
        options = find_strategy(strategy).options
    except UsageError:
        return False
    return options is not None and AGENT in options.model_fields and MODEL not in options.model_fields


def part(schema: Mapping[str, JsonValue], *path: str) -> Mapping[str, JsonValue]:
    """The schema at `path`, which must exist."""
    for key in path:
        schema = cast("Mapping[str, JsonValue]", schema[key])
    return schema


@cache
def _schema() -> JsonSchema:
    RetryPolicy.model_rebuild()  # the schema has a default of it, for which pydantic 2.12 does not build its class
    schema = cast("JsonSchema", Manifest.model_json_schema())
    _add_tasks(schema)
    _drop_titles(schema)
    _describe_sections(schema)
    _add_rules(schema)
    _add_tool_kinds(schema)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Teamwright manifest",
        **schema,
        # Editors accept blocks that only hold anchors; the loader does too.
        "patternProperties": {"^x-": {}},
    }


def _add_tasks(schema: JsonSchema) -> None:
    """Add the section `tasks`: a manifest may contain a plan, like a task file."""
    step = cast("JsonSchema", Step.model_json_schema())
    cast("JsonSchema", schema["$defs"]).update(cast("JsonSchema", step.pop("$defs", {})))
    tasks: JsonSchema = {"type": "array", "minItems": 1, "items": step, "description": TASKS_WORDS}
    cast("JsonSchema", schema["properties"])["tasks"] = tasks


def _add_block(schema: JsonSchema, team: JsonSchema, strategy: str) -> None:
    """Add the block of a strategy to a team's fields. Its definitions get unique names."""
    try:
        options = find_strategy(strategy).options
    except UsageError:
        options = None  # the loader reports why to users of the strategy
    block = copy.deepcopy(cast("JsonSchema", options_schema(options))) if options else JsonSchema(type="object")
    _drop_titles(block)
    if takes_model(strategy):
        agent = part(schema, "$defs", "AgentSpec", "properties")
        cast("JsonSchema", block["properties"])[MODEL] = {
            **cast("JsonSchema", agent[MODEL]),
            "description": "in place of `agent`: a name from `models`, or a model",
        }
    own = cast("JsonSchema", block.pop("$defs", {}))
    _rename_references([block, own], own, strategy)
    definitions = cast("JsonSchema", schema["$defs"])
    definitions |= {f"{strategy}.{name}": value for name, value in own.items()} | {f"{strategy}.options": block}
    reference: JsonSchema = {"$ref": f"#/$defs/{strategy}.options"}
    dashed = strategy.replace("_", "-")
    cast("JsonSchema", team["properties"]).setdefault(
        strategy, {**reference, "description": f"with strategy: {strategy}"}
    )
    if dashed != strategy:  # accepted, but not what an editor should offer
        cast("JsonSchema", team.setdefault("patternProperties", {}))[f"^{dashed}$"] = {**reference}


def _add_model_settings(schema: JsonSchema) -> None:
    """Add the settings of models, which the loader reads only where some are given."""
    settings = settings_schema()
    _drop_titles(settings)
    settings.pop("instead")
    definitions = cast("JsonSchema", schema["$defs"])
    definitions |= cast("JsonSchema", settings.pop("$defs", {}))
    definitions["ModelSettings"] = settings
    for owner in ("AgentSpec", "NamedModel", "ServerModel"):
        field = cast("JsonSchema", part(definitions, owner, "properties", "settings"))
        field["anyOf"] = [{"$ref": "#/$defs/ModelSettings"}, {"type": "null"}]


def _add_tool_kinds(schema: JsonSchema) -> None:
    """Accept tool kinds of other packages, of which only the names are known before they are imported.

    Those of wings that are not there are accepted as well, and refused later with their extra.
    """
    section = part(schema, "properties", "tools", "additionalProperties")
    agent = part(schema, "$defs", "AgentSpec", "properties", "tools", "items")
    for name in (*kind_names(), *absent_kind_names()):
        if name not in OWN:
            form: JsonSchema = {"type": "object", "properties": {name: {}}, "required": [name]}
            form["additionalProperties"] = False
            cast("JsonSchema", schema["$defs"])[f"tool.{name}"] = form
            for place in (section, agent):
                cast("list[JsonValue]", place["anyOf"]).append({"$ref": f"#/$defs/tool.{name}"})


def _add_tool_settings(schema: JsonSchema, name: str) -> None:
    """Add the settings of a tool kind of another package."""
    try:
        block = cast("JsonSchema", find_kind(name).model.model_json_schema())
    except UsageError:
        return  # the loader reports why to users of the tool
    _drop_titles(block)
    own = cast("JsonSchema", block.pop("$defs", {}))
    _rename_references([block, own], own, f"tool.{name}")
    definitions = cast("JsonSchema", schema["$defs"])
    definitions |= {f"tool.{name}.{one}": value for one, value in own.items()}
    cast("JsonSchema", part(definitions, f"tool.{name}", "properties"))[name] = block


def _rename_references(node: JsonValue, own: JsonSchema, strategy: str) -> None:
    if isinstance(node, list):
        for item in node:
            _rename_references(item, own, strategy)
    elif isinstance(node, dict):
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if name in own:
            node["$ref"] = f"#/$defs/{strategy}.{name}"
        for value in node.values():
            _rename_references(value, own, strategy)


def _drop_titles(node: JsonValue, *, names: bool = False) -> None:
    """Remove titles, which only repeat the field's name; inside `properties`, a `title` is a field."""
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
    """Describe each section as a mapping from names to values, with the short forms that the loader accepts."""
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


def _add_rules(schema: JsonSchema) -> None:
    """Add what the loader checks beyond types, as far as a schema can express it."""
    agent = cast("JsonSchema", part(schema, "$defs", "AgentSpec"))
    both: JsonSchema = {
        "properties": {name: {"const": True} for name in ("optional", "critical")},
        "required": ["optional", "critical"],
    }
    answerers: list[JsonValue] = [
        {"required": [*pair]} for pair in combinations(("model", "function", "a2a", "acp"), 2)
    ]
    agent["not"] = {"anyOf": [*answerers, both]}
    for name, words in (("a2a", "its URL"), ("acp", "its command")):
        field = cast("JsonSchema", part(agent, "properties", name))
        cast("list[JsonValue]", field["anyOf"]).insert(0, {"type": "string", "description": words})
    team = cast("JsonSchema", part(schema, "$defs", "TeamSpec"))
    team["not"] = both
    cast("JsonSchema", part(team, "properties", "members"))["minItems"] = 1
