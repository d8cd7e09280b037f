"""The picture of a team and of its nested teams, as data that drawings share. It knows no strategy by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue

from teamwright.agents.contract.agent import judges_of
from teamwright.strategies.diagram import Arrow, Diagram, Node, description_line
from teamwright.strategies.plan.step_options import evaluated_steps
from teamwright.strategies.protocol import Members
from teamwright.teams.team import Team

if TYPE_CHECKING:
    from teamwright.agents.contract.agent import Agent


AS_A_TOOL = "asks as a tool"
MOST_REPEATED = 200
"""After so many teams in the JSON, a team that was described already is only named."""


@dataclass(frozen=True, slots=True)
class Portrait:
    """What a drawing shows of an agent."""

    kind: str
    description: str = ""
    traits: tuple[str, ...] = ()
    member: bool = True

    def to_json(self) -> dict[str, JsonValue]:
        """As data."""
        return {
            "kind": self.kind,
            "description": self.description,
            "traits": list(self.traits),
            "member": self.member,
        }


class Link(NamedTuple):
    """An arrow between groups, by their indexes."""

    source: int
    to: int
    label: str


@dataclass(frozen=True)
class Picture:
    """A team: its strategy, its agents, and the pictures of its nested teams."""

    name: str
    strategy: str
    description: str
    facts: tuple[str, ...]
    diagram: Diagram
    agents: Mapping[str, Portrait]
    teams: Mapping[str, Picture]

    @cached_property
    def groups(self) -> Sequence[Sequence[Node]]:
        """Nodes grouped by their arrows: those in a group differ only in their agents."""
        ways: defaultdict[str, set[tuple[str, str, str]]] = defaultdict(set)
        for arrow in self.diagram.arrows:
            ways[arrow.source].add(("to", arrow.to, arrow.label))
            ways[arrow.to].add(("from", arrow.source, arrow.label))
        found: defaultdict[tuple[object, ...], list[Node]] = defaultdict(list)
        for node in self.diagram.nodes:
            found[bool(node.agent), node.about, frozenset(ways[node.id])].append(node)
        return list(found.values())

    @cached_property
    def links(self) -> Sequence[Link]:
        """The arrows between groups, each once, in the order of their sources."""
        place = {node.id: index for index, group in enumerate(self.groups) for node in group}
        found = (Link(place[arrow.source], place[arrow.to], arrow.label) for arrow in self.diagram.arrows)
        return sorted(dict.fromkeys(found), key=lambda link: link.source)

    def to_json(self) -> dict[str, JsonValue]:
        """As data. After many teams, those that were described already are only named."""
        return self._described(set(), [MOST_REPEATED])

    def _described(self, known: set[str], left: list[int]) -> dict[str, JsonValue]:
        left[0] -= 1
        if left[0] < 0 and self.name in known:
            return {"team": self.name, "repeated": True}
        known.add(self.name)
        return {
            "team": self.name,
            "strategy": self.strategy,
            "description": self.description,
            "facts": list(self.facts),
            "nodes": [node.to_json() for node in self.diagram.nodes],
            "arrows": [arrow.to_json() for arrow in self.diagram.arrows],
            "agents": {name: portrait.to_json() for name, portrait in self.agents.items()},
            "teams": {name: picture._described(known, left) for name, picture in self.teams.items()},
        }


def picture_of(team: Team, known: dict[str, Picture] | None = None) -> Picture:
    """Return the picture of a team and its nested teams; `known` caches pictures by name."""
    pictures = {} if known is None else known
    if team.name in pictures:
        return pictures[team.name]
    pictures[team.name] = made = _picture(team, pictures)
    return made


def _picture(team: Team, pictures: dict[str, Picture]) -> Picture:
    members = {member.name for member in team.members}
    everyone: dict[str, Agent] = {agent.name: agent for agent in (*team.helpers, *team.members)}
    diagram = _with_tools(team.strategy.diagram(team.settings, Members(team.members, team.helpers)), everyone)
    return Picture(
        name=team.name,
        strategy=team.strategy.name,
        description=team.description,
        facts=(*_facts(team), *diagram.notes),
        diagram=diagram,
        agents={name: _portrait(agent, member=name in members) for name, agent in everyone.items()},
        teams={name: picture_of(agent, pictures) for name, agent in everyone.items() if isinstance(agent, Team)},
    )


def _with_tools(diagram: Diagram, everyone: dict[str, Agent]) -> Diagram:
    """Add the agents that others ask as tools to a diagram, and to `everyone`."""
    nodes = list(diagram.nodes)
    places = {node.agent: node.id for node in reversed(nodes) if node.agent}
    arrows: list[Arrow] = []
    pending = list(everyone.values())
    while pending:
        agent = pending.pop(0)
        for asked in agent.tool_agents:
            if asked.name not in everyone:
                everyone[asked.name] = asked
                pending.append(asked)
            if asked.name not in places:
                places[asked.name] = place = f"{asked.name}#tool"
                nodes.append(Node(id=place, agent=asked.name))
            if agent.name in places:
                arrows.append(Arrow(source=places[agent.name], to=places[asked.name], label=AS_A_TOOL))
    return diagram.changed(nodes=tuple(nodes), arrows=(*diagram.arrows, *arrows)) if arrows else diagram


def _facts(team: Team) -> list[str]:
    settings = team.settings
    found = [] if settings.share == "transcript" else [f"share: {settings.share}"]
    if settings.max_turns is not None:
        found.append(f"max_turns: {settings.max_turns}")
    if team.limits is not None:
        bounds = team.limits.model_dump(exclude_none=True)
        each, strict = bounds.pop("message", {}), bounds.pop("strict", False)
        found += [f"at most {limit:g} {name}" for name, limit in bounds.items()]
        found += [f"each request at most {limit:g} {name}" for name, limit in each.items()]
        found += ["strict limits"] * strict
    if steps := evaluated_steps(settings):
        found.append(f"reviewed steps: {', '.join(steps)}")
    return [*found, *_review(team)]


def _review(agent: Agent) -> list[str]:
    """Who reviews the work of an agent, if it is reviewed."""
    if agent.policy.evaluate is None:
        return []
    judges = ", ".join(judge.name for judge in judges_of(agent))
    return [f"reviewed by {judges}" if judges else "reviewed"]


def _portrait(agent: Agent, *, member: bool) -> Portrait:
    policy = agent.policy
    traits = {"optional": policy.optional, "critical": policy.critical, "may end the team": policy.can_terminate}
    return Portrait(
        kind=agent.kind,
        description=description_line(agent),
        traits=(*(words for words, holds in traits.items() if holds), *_review(agent)),
        member=member,
    )
