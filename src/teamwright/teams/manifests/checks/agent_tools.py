"""The agents and teams that a manifest declares as tools of others, with the places of their names."""

from __future__ import annotations

from collections.abc import Iterator

from teamwright.agents.tools.agent_tool import AGENT
from teamwright.documents.nodes import Fields, Items, Node, Place, Scalar
from teamwright.teams.manifests.declarations import Declaration, Declarations

Named = tuple[str, Place]


def agents_in_tools(agent: Declaration, declared: Declarations) -> Iterator[Named]:
    """Yield the agents and teams among an agent's tools, also those behind the name of a declared tool."""
    yield from inline_agents(agent)
    for name, place in agent.fields.texts("tools"):
        if name in declared.tools:
            yield from ((inner, place) for inner, _ in agent_named_in(declared.tools[name].node))


def inline_agents(agent: Declaration) -> Iterator[Named]:
    """Yield the agents and teams that an agent's own list of tools names."""
    tools = agent.fields.get("tools")
    for item in tools.items if isinstance(tools, Items) else ():
        yield from agent_named_in(item)


def agent_named_in(tool: Node) -> Iterator[Named]:
    """Yield the agent or team that a declared tool asks, if it is such a tool."""
    name = tool.get(AGENT) if isinstance(tool, Fields) else None
    if isinstance(name, Scalar) and isinstance(name.value, str):
        yield name.value, name.place
