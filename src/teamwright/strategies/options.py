"""What a team's declaration says to its strategy, held against what the strategy takes.

Manifests and teams made in Python are checked here, by the same rules, for every strategy alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Literal, NamedTuple, cast

from pydantic import JsonValue, ValidationError

from teamwright.strategies.contract import options_of, problems_of
from teamwright.strategies.protocol import Flaw, Members, Settings, StrategyLike
from teamwright.values.models import Value
from teamwright.values.names import FieldPath
from teamwright.values.text.validation_messages import misfits_of

Schema = Mapping[str, JsonValue]


class Named(NamedTuple):
    """A name that stands in options, and whether it must be a member's or may be any agent's."""

    name: str
    at: FieldPath
    kind: Literal["agent", "member"]


def flaws(strategy: StrategyLike, settings: Settings, members: Members) -> list[Flaw]:
    """Everything that is wrong with a team's settings; nothing that only follows from something else."""
    found, known = list[Flaw](), {member.name for member in members}
    for named in names_in(strategy, settings.options):
        if named.kind == "member" and named.name not in known:
            found.append(Flaw(f"{named.name!r} is not a member", named.at))
        elif named.name not in members.names:
            found.append(Flaw(f"{named.name!r} is neither a member nor a helper", named.at))
    wrong = misfits(strategy, settings.options)
    usable = as_far_as_it_fits(strategy, settings.options, wrong)
    if found or usable is None:
        return [*wrong, *found]
    objections = problems_of(strategy, replace(settings, options=usable), members)
    return [*wrong, *(Flaw(one) if isinstance(one, str) else one for one in objections)]


def misfits(strategy: StrategyLike, options: Mapping[str, JsonValue]) -> list[Flaw]:
    """How options break the form that their strategy gives them."""
    model = options_of(strategy)
    if model is None:
        return []
    try:
        model.model_validate(options)
    except ValidationError as error:
        return [
            Flaw(f"{'.'.join(map(str, one.at)) or 'options'}: {one.text}", one.at) for one in misfits_of(error, options)
        ]
    return []


def as_far_as_it_fits(
    strategy: StrategyLike, options: Mapping[str, JsonValue], found: Sequence[Flaw]
) -> Mapping[str, JsonValue] | None:
    """The options without fields whose misfits were found; nothing where the strategy has no other value for them."""
    model = options_of(strategy)
    if model is None or not found:
        return options
    wrong = {flaw.at[0] if flaw.at else "" for flaw in found}
    known = cast("Mapping[str, Schema]", schema_of(model).get("properties", {}))
    if any(name == "" or (name in known and known[name].get("default") is None) for name in map(str, wrong)):
        return None
    kept = {name: value for name, value in options.items() if name not in wrong}
    return None if misfits(strategy, kept) else kept


def names_in(strategy: StrategyLike, options: Mapping[str, JsonValue]) -> list[Named]:
    """The agents and members that options name, with where."""
    model = options_of(strategy)
    if model is None:
        return []
    schema = schema_of(model)
    return list(_names(cast("JsonValue", options), schema, cast("Schema", schema.get("$defs", {})), ()))


def rename(options: dict[str, JsonValue], at: FieldPath, name: str) -> None:
    """Put another name where one stands in these options; one that is a key stays."""
    around = cast("dict[str | int, JsonValue]", options)
    for step in at[:-1]:
        around = cast("dict[str | int, JsonValue]", around[step])
    if isinstance(around[at[-1]], str):
        around[at[-1]] = name


@cache
def schema_of(model: type[Value]) -> Schema:
    """The JSON Schema of a strategy's options, as a manifest spells them."""
    return cast("Schema", model.model_json_schema(by_alias=True))


def _names(node: JsonValue, schema: Schema, definitions: Mapping[str, JsonValue], at: FieldPath) -> Iterator[Named]:
    """Walk data and schema side by side. A text and a mapping may have alternatives; only one of them fits."""
    if "$ref" in schema:
        target = definitions[str(schema["$ref"]).rpartition("/")[2]]
        yield from _names(node, cast("Schema", target), definitions, at)
        return
    for alternative in cast("Sequence[Schema]", schema.get("anyOf", ())):
        yield from _names(node, alternative, definitions, at)
    if isinstance(node, str) and "names" in schema:
        yield Named(node, at, cast("Literal['agent', 'member']", schema["names"]))
    elif isinstance(node, list) and (items := schema.get("items")):
        for index, item in enumerate(node):
            yield from _names(item, cast("Schema", items), definitions, (*at, index))
    elif isinstance(node, dict):
        known = cast("Mapping[str, Schema]", schema.get("properties", {}))
        others = schema.get("additionalProperties")
        if isinstance(naming := schema.get("propertyNames"), dict) and "names" in naming:
            kind = cast("Literal['agent', 'member']", naming["names"])
            yield from (Named(key, (*at, key), kind) for key in node)
        for key, item in node.items():
            inner = known.get(key, others if isinstance(others, dict) else {})
            yield from _names(item, inner, definitions, (*at, key))
