"""The settings that constructors of agents take by keyword, declared and checked once for all kinds of agents.

Each of them is a field of `AgentSpec`: what Python passes and what a manifest declares are checked by the same model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import JsonValue

from teamwright.agents.contract.arguments import Mistakes, check_arguments
from teamwright.agents.contract.policy import UNSET, Policy, PolicySettings, policy_for
from teamwright.agents.schemas import Schema, as_schema
from teamwright.values.call_limits import Compact
from teamwright.values.specs.manifest import AgentSpec, AnyModel, CacheMode
from teamwright.values.specs.model_settings import OutputChoice


class AgentKeywords(PolicySettings, total=False):
    """The settings of every agent: its policy, and what selectors, registries and schemas say of it."""

    description: str
    capabilities: Sequence[str]
    input_schema: Schema | type[object] | None
    output_schema: Schema | type[object] | None
    timeout: float | None


class ModelKeywords(AgentKeywords, total=False):
    """The settings of an agent with a model besides those of every agent."""

    output_mode: OutputChoice | None
    max_requests: int | None
    idle_timeout: float | None
    cache: CacheMode
    economy: AnyModel | None
    priority: int | None
    compact: Compact | None


SCHEMAS = frozenset(("input_schema", "output_schema"))
POLICY = PolicySettings.__optional_keys__ | {"economy", "priority", "compact"}
"""The keywords that become fields of the policy."""


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """The checked settings that agents of every kind have."""

    description: str
    capabilities: tuple[str, ...]
    input_schema: dict[str, JsonValue] | None
    output_schema: dict[str, JsonValue] | None
    timeout: float | None
    policy: Policy


def shared_settings(
    name: str,
    keywords: AgentKeywords,
    mistakes: Mistakes,
    checked: Mapping[str, object] | None = None,
    **policy: object,
) -> SharedSettings:
    """Return the settings of the agent of this name, and add every mistake to `mistakes`.

    `checked` are settings that the agent keeps itself, and that are checked with the others. `policy` are fields of the
    policy that it sets itself, `None` if it does not.
    """
    owner, collect, given = f"The agent {name!r}", mistakes.collect, cast("dict[str, object]", keywords)
    plain = {field: value for field, value in given.items() if field not in POLICY and field not in SCHEMAS}
    if plain or checked:
        collect(check_arguments, owner, AgentSpec, **plain, **(checked or {}))
    before, after = keywords.get("input_schema"), keywords.get("output_schema")
    settings = {field: value for field, value in given.items() if field in POLICY and field != "priority"}
    own = collect(policy_for, owner, cast("PolicySettings", settings), priority=given.get("priority"), **policy)
    return SharedSettings(
        description=keywords.get("description", ""),
        capabilities=() if mistakes else tuple(keywords.get("capabilities", ())),
        input_schema=None if before is None else collect(as_schema, before, f"the input of {name!r}"),
        output_schema=None if after is None else collect(as_schema, after, f"the output of {name!r}"),
        timeout=keywords.get("timeout"),
        policy=own or UNSET,
    )
