"""Finds strategies, and checks the settings of a team against the options that its strategy declares.

Strategies are built in, registered by other packages under the entry point group `teamwright.strategies`, or found by
an import path `module:Class`. Manifests and teams made in Python go through the same checks, for every strategy alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Literal, NamedTuple, cast

from pydantic import JsonValue, ValidationError

from teamwright.agents.agent import Context
from teamwright.errors import MissingExtra, UnknownName, UsageError, nearest
from teamwright.strategies.protocol import Issue, Members, Settings, Strategy, Task, require_strategy
from teamwright.values.names import FieldPath, plain_strategy_name
from teamwright.values.text.validation_messages import hint_for, misfits_of
from teamwright.values.turns.results import Outcome
from teamwright.values.value import Value
from teamwright.wings import Registered, entry_points_of

GROUP = "teamwright.strategies"
OWN_PACKAGE = "teamwright."
BUILT_IN_STRATEGIES = {
    "sequential": "teamwright.strategies.sequential:Sequential",
    "round_robin": "teamwright.strategies.round_robin:RoundRobin",
    "selector": "teamwright.strategies.selector:Selector",
    "graph": "teamwright.strategies.graph:Graph",
    "fan_out": "teamwright.strategies.fan_out:FanOut",
    "plan": "teamwright.strategies.plan.engine:PlanStrategy",
    "dag": "teamwright.strategies.plan.engine:Dag",
    "hierarchical": "teamwright.strategies.hierarchical:Hierarchical",
    "reactive": "teamwright.strategies.reactive:Reactive",
    "single": "teamwright.strategies.plan.engine:Single",
    "lead_subagent": "teamwright.strategies.plan.engine:LeadSubagent",
    "star_team": "teamwright.strategies.plan.engine:StarTeam",
    "mesh_team": "teamwright.strategies.plan.engine:MeshTeam",
}


@dataclass(frozen=True)
class UnloadedStrategy(Strategy):
    """Placeholder for a strategy that was not imported: it accepts any options and cannot run."""

    name: str
    path: str
    version: int = 0

    def talk_problem(self, settings: Settings) -> str | None:
        """Return nothing: its code would know."""
        return None

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Raise `UsageError`: the code of the strategy is not loaded."""
        raise UsageError(f"The strategy {self.name!r} ({self.path}) was not loaded, so it can't run.")


@cache
def _third_party() -> Registered:
    points = (one for one in entry_points_of(GROUP) if plain_strategy_name(one.name) not in BUILT_IN_STRATEGIES)
    return Registered(points, plain_strategy_name)


def strategy_names() -> list[str]:
    """Return the names of all strategies, sorted."""
    return sorted({*BUILT_IN_STRATEGIES, *_third_party().here})


def missing_strategy(name: str) -> MissingExtra | None:
    """Return the error for a strategy that a wing would bring which is not there; `None` for any other name."""
    return _third_party().missing("strategy", name)


def is_own(name: str) -> bool:
    """Return whether a strategy is of this distribution, so that using it runs no code of others."""
    if name in BUILT_IN_STRATEGIES:
        return True
    point = _third_party().here.get(name)
    return point is not None and point.value.startswith(OWN_PACKAGE)


def find_strategy(name: str) -> Strategy:
    """Return the strategy with this name, spelt with `-` or `_`, or of this import path.

    Where loading code is off, a third-party strategy is returned as an `UnloadedStrategy`.
    """
    plain = plain_strategy_name(name)
    if ":" in plain:
        return _import_strategy(plain)
    if plain in BUILT_IN_STRATEGIES:
        module, _, attribute = BUILT_IN_STRATEGIES[plain].partition(":")
        return getattr(import_module(module), attribute)()
    point = _third_party().here.get(plain)
    if point is None:
        raise missing_strategy(plain) or UnknownName("strategy", name, strategy_names())
    from teamwright.agents.functions.imports import can_load_code  # needed for such a strategy alone

    if not can_load_code() and not is_own(plain):
        return UnloadedStrategy(plain, point.value)
    try:
        strategy = require_strategy(point.load()())
    except Exception as error:  # third-party code may raise anything; the message names its package
        raise UsageError(f"The strategy {name!r} ({point.value}) can't be loaded: {error}") from error
    return strategy


def _import_strategy(path: str) -> Strategy:
    from teamwright.agents.functions.imports import can_load_code, load_function  # needed for such a strategy alone

    made = load_function(path, "the strategy", "module:Class")
    if not can_load_code():
        return UnloadedStrategy(path, path)
    if not isinstance(made, type):
        raise UsageError(f"The strategy {path!r} is not a class; name the class, of which the team makes an instance.")
    try:
        strategy = made()
    except Exception as error:  # a class of the user may raise anything
        raise UsageError(
            f"The strategy {path!r} can't be created without arguments: {error}. Give it defaults, and read the team's"
            " options from task.settings."
        ) from error
    return require_strategy(strategy)


Schema = Mapping[str, JsonValue]
MOST_SUGGESTIONS = 10
"""How many wrong names get a suggestion, which takes time."""


class NamedAgent(NamedTuple):
    """A name in the options, and whether it must name a member or may name any agent."""

    name: str
    at: FieldPath
    kind: Literal["agent", "member"]


def settings_flaws(strategy: Strategy, settings: Settings, members: Members) -> list[Issue]:
    """Return every problem in a team's settings, without those that only follow from another one."""
    found, known = list[Issue](), {member.name for member in members}
    for named in named_agents(strategy, settings.options):
        kind = "not a member" if named.kind == "member" else "neither a member nor a helper"
        possible = known if named.kind == "member" else members.names
        if named.name not in possible:
            hint = f"; {nearest(named.name, possible).rstrip('.')}" if len(found) < MOST_SUGGESTIONS else ""
            found.append(Issue(f"{'.'.join(map(str, named.at))}: {named.name!r} is {kind}{hint}", named.at))
    wrong = option_flaws(strategy, settings.options)
    usable = valid_options(strategy, settings.options, wrong)
    if found or usable is None:
        return [*wrong, *found]
    objections = strategy.problems(replace(settings, options=usable), members)
    return [*wrong, *(Issue(one) if isinstance(one, str) else _with_setting(one) for one in objections)]


def _with_setting(issue: Issue) -> Issue:
    """Return an issue whose text names the setting; one about an item of a list names the item already."""
    setting = ".".join(map(str, issue.at))
    is_item = any(isinstance(step, int) for step in issue.at)
    if not setting or is_item or re.search(rf"\b{re.escape(str(issue.at[-1]))}\b", issue.text):
        return issue
    return issue._replace(text=f"{setting}: {issue.text}")


def option_flaws(strategy: Strategy, options: Mapping[str, JsonValue]) -> list[Issue]:
    """Return where the options do not match the model of the strategy."""
    model = strategy.options
    if model is None:
        return []
    try:
        model.model_validate(options)
    except ValidationError as error:
        return [
            Issue(f"{'.'.join(map(str, one.at)) or 'options'}: {one.text}{hint_for(one, model)}", one.at)
            for one in misfits_of(error, options)
        ]
    return []


def valid_options(
    strategy: Strategy, options: Mapping[str, JsonValue], found: Sequence[Issue]
) -> Mapping[str, JsonValue] | None:
    """Return the options without the invalid fields; None if one of those has no default."""
    model = strategy.options
    if model is None or not found:
        return options
    wrong = {flaw.at[0] if flaw.at else "" for flaw in found}
    known = cast("Mapping[str, Schema]", options_schema(model).get("properties", {}))
    if any(name == "" or (name in known and known[name].get("default") is None) for name in map(str, wrong)):
        return None
    valid = {name: value for name, value in options.items() if name not in wrong}
    return None if option_flaws(strategy, valid) else valid


def named_agents(strategy: Strategy, options: Mapping[str, JsonValue]) -> list[NamedAgent]:
    """Return the agents and members that the options name, with their paths."""
    model = strategy.options
    if model is None:
        return []
    schema = options_schema(model)
    return list(_names(cast("JsonValue", options), schema, cast("Schema", schema.get("$defs", {})), ()))


def rename(options: dict[str, JsonValue], at: FieldPath, name: str) -> None:
    """Replace the name at this path of the options; a name that is a mapping key is left unchanged.

    So is one whose part of the options was dropped, because it is declared twice or in the wrong form.
    """
    around: JsonValue = options
    for step in at[:-1]:
        around = _at(around, step)
    if isinstance(_at(around, at[-1]), str):
        cast("dict[str | int, JsonValue]", around)[at[-1]] = name


def _at(around: JsonValue, step: str | int) -> JsonValue:
    """Return the part of a value at this key or index; `None` if there is none."""
    match around:
        case dict() if isinstance(step, str):
            return around.get(step)
        case list() if isinstance(step, int) and 0 <= step < len(around):
            return around[step]
        case _:
            return None


@cache
def options_schema(model: type[Value]) -> Schema:
    """Return the JSON Schema of the options, with field names as manifests spell them."""
    return cast("Schema", model.model_json_schema(by_alias=True))


def _names(
    node: JsonValue, schema: Schema, definitions: Mapping[str, JsonValue], at: FieldPath
) -> Iterator[NamedAgent]:
    """Walk data and schema in parallel. Of the alternatives for a string or a mapping, only one matches."""
    if "$ref" in schema:
        target = definitions[str(schema["$ref"]).rpartition("/")[2]]
        yield from _names(node, cast("Schema", target), definitions, at)
        return
    for alternative in cast("Sequence[Schema]", schema.get("anyOf", ())):
        yield from _names(node, alternative, definitions, at)
    if isinstance(node, str) and "names" in schema:
        yield NamedAgent(node, at, cast("Literal['agent', 'member']", schema["names"]))
    elif isinstance(node, list) and (items := schema.get("items")):
        for index, item in enumerate(node):
            yield from _names(item, cast("Schema", items), definitions, (*at, index))
    elif isinstance(node, dict):
        known = cast("Mapping[str, Schema]", schema.get("properties", {}))
        others = schema.get("additionalProperties")
        for form in cast("Mapping[str, Schema]", schema.get("patternProperties", {})).values():
            others = form  # of a mapping whose keys are of one form
        if isinstance(naming := schema.get("propertyNames"), dict) and "names" in naming:
            kind = cast("Literal['agent', 'member']", naming["names"])
            yield from (NamedAgent(key, (*at, key), kind) for key in node)
        for key, item in node.items():
            inner = known.get(key, cast("Schema", others) if isinstance(others, dict) else {})
            yield from _names(item, inner, definitions, (*at, key))
