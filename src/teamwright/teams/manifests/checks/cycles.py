"""Checks who asks whom in a manifest: members, helpers, fallbacks and tools must not lead back, nor nest too deeply."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise

from teamwright.agents.reference_graph import MOST_CYCLES, MOST_FALLBACKS, MOST_NESTED, cycle_text, depths, find_cycles
from teamwright.agents.tools.agent_tool import AGENT
from teamwright.documents.nodes import Fields, Items, Node, Place, ProblemReport, Scalar, shown
from teamwright.teams.manifests.declarations import Declaration, Declarations

Named = tuple[str, Place]

Asked = list[tuple[str, Place]]

Edge = tuple[str, str]


@dataclass(slots=True)
class AskGraph:
    """The agents and teams of a manifest, and whom each of them may ask."""

    declared: Declarations
    report: ProblemReport
    asked: dict[str, Asked] = field(default_factory=dict[str, Asked])
    """Whom each asks, with the place of the name; one that is unknown was reported before and is left out."""
    fallbacks: dict[Edge, Place] = field(default_factory=dict[Edge, Place])
    tools: dict[Edge, Place] = field(default_factory=dict[Edge, Place])

    def is_known(self, name: str) -> bool:
        return name in self.declared.agents or name in self.declared.teams

    def fallback_of(self, owner: Declaration, fallback: Scalar | None) -> Asked:
        """Return the fallback of an agent or a team; one that is its owner was reported before."""
        name = str(fallback.value) if fallback else owner.name
        if fallback is None or name == owner.name or not self.is_known(name):
            return []
        self.fallbacks[owner.name, name] = fallback.place
        return [(name, fallback.place)]

    def check(self) -> None:
        """Report cycles; where there are none, report chains that are too long."""
        for agent in self.declared.agents.values():
            tools = [(name, place) for name, place in agents_in_tools(agent, self.declared) if self.is_known(name)]
            self.tools.update(((agent.name, name), place) for name, place in tools)
            self.asked[agent.name] = [*tools, *self.fallback_of(agent, agent.fields.text("fallback"))]
        cycles = list(islice(find_cycles(self.asked, lambda name: self.asked[name]), MOST_CYCLES))
        for cycle, place in cycles:
            self._note_cycle(cycle, place)
        if not cycles:
            self._check_nesting()
            self._check_fallback_chains()

    def _check_nesting(self) -> None:
        asking = {owner for owner, _ in self.tools}
        levels = depths(
            self.asked,
            lambda name: (one for one, _ in self.asked[name]),
            lambda name: int(name in self.declared.teams or name in asking),
        )
        if deepest := next((one for one in self.declared.teams.values() if levels[one.name] > MOST_NESTED), None):
            message = f"{deepest.words} has teams nested {levels[deepest.name]} levels deep"
            self.report.problem(deepest.place, f"{message}; the maximum is {MOST_NESTED}", "nest fewer teams")
        elif deepest := next((one for one in self.declared.agents.values() if levels[one.name] > MOST_NESTED), None):
            message = f"{deepest.words} has agents as tools {levels[deepest.name]} levels deep"
            self.report.problem(deepest.place, f"{message}; the maximum is {MOST_NESTED}", "nest fewer agents")

    def _check_fallback_chains(self) -> None:
        agents = self.declared.agents
        lines = depths(
            agents,
            lambda name: (one for one, _ in self.asked[name] if one in agents),
            lambda name: int(agents[name].fields.text("fallback") is not None),
        )
        if longest := next((name for name in agents if lines[name] > MOST_FALLBACKS), None):
            message = (
                f"agent {shown(longest)} has a chain of {lines[longest]} fallbacks; the maximum is {MOST_FALLBACKS}"
            )
            self.report.problem(agents[longest].place, message, "only the first of them is ever asked")

    def _note_cycle(self, cycle: list[str], place: Place) -> None:
        last, member = cycle[-2:]
        words = "Teams contain each other"
        if fallback := _first_of(cycle, self.fallbacks):
            cycle, place = _starting_with(cycle, fallback), self.fallbacks[fallback]
            words = f"The fallback of {shown(cycle[0])} leads back to it"
        elif tool := _first_of(cycle, self.tools):
            cycle, place = _starting_with(cycle, tool), self.tools[tool]
            words = f"The tool {shown(tool[1])} of {shown(tool[0])} leads back to it"
        elif last == member:
            listed = any(name == member for name, _ in self.declared.teams[member].fields.texts("members"))
            words = f"team {shown(member)} is {'a member' if listed else 'a helper'} of itself"
        self.report.problem(place, f"{words}: {cycle_text(cycle)}", "take one of them out")


def _first_of(cycle: list[str], edges: dict[Edge, Place]) -> Edge | None:
    return next((edge for edge in pairwise(cycle) if edge in edges), None)


def _starting_with(cycle: list[str], edge: Edge) -> list[str]:
    start = cycle.index(edge[0])
    return [*cycle[start:-1], *cycle[: start + 1]]


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
