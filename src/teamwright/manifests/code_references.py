"""The code that a manifest names: what would be imported or started to run it. Nothing here does either."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pydantic import JsonValue

from teamwright.agents.tools.registry import OWN, find_kind, kind_name, settings_of
from teamwright.strategies.registry import BUILT_IN_STRATEGIES
from teamwright.values.names import plain_strategy_name
from teamwright.values.specs.manifest import AgentSpec, Manifest, ToolSpec


class Code(NamedTuple):
    """A function, a strategy or kind of tool of another package, or an MCP server, and what names it."""

    kind: str
    code: str
    owner: str

    def __str__(self) -> str:
        return f"{self.kind} {self.code!r} of {self.owner}"

    def to_json(self) -> dict[str, JsonValue]:
        """As data."""
        return {"kind": self.kind, "code": self.code, "of": self.owner}


def code_in(manifest: Manifest) -> list[Code]:
    """All code that a manifest names, each once, in the order of the manifest."""
    found: list[Code] = []
    for name, agent in manifest.agents.items():
        found += code_of_agent(agent, f"agent {name!r}")
    for name, tool in manifest.tools.items():
        found += _code_of_tool(tool, f"tool {name!r}")
    for name, team in manifest.teams.items():
        if plain_strategy_name(team.strategy) not in BUILT_IN_STRATEGIES:
            found.append(Code("strategy", team.strategy, f"team {name!r}"))
    return list(dict.fromkeys(found))


def code_of_agent(agent: AgentSpec, owner: str) -> Iterator[Code]:
    """The code that an agent names itself; tools that it only names are declared elsewhere."""
    if agent.function is not None:
        yield Code("function", agent.function, owner)
    for tool in agent.tools:
        yield from _code_of_tool(tool, owner)


def _code_of_tool(tool: str | ToolSpec, owner: str) -> Iterator[Code]:
    """A kind of another package is code by itself, and is not imported to be told of."""
    if isinstance(tool, str):
        return
    name = kind_name(tool)
    if name not in OWN:
        yield Code("tool", name, owner)
        return
    kind = find_kind(name)
    for what, code in kind.code(settings_of(tool, kind)):
        yield Code(what, code, owner)
