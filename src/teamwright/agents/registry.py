"""Agents by name, and by what they can do. A registry belongs to whoever made it; there is no global one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from teamwright.agents.context import AgentLike
from teamwright.agents.contract import capabilities_of, require_agent
from teamwright.agents.protocol import Agent
from teamwright.errors import DuplicateName, UnknownName
from teamwright.values.names import check_name

A = TypeVar("A", bound=AgentLike)


class AgentRegistry:
    """Agents, each under its own name, in the order in which they came."""

    def __init__(self, agents: Iterable[AgentLike] = ()) -> None:
        self._agents: dict[str, Agent] = {}
        for agent in agents:
            self.register(agent)

    def register(self, agent: A) -> A:
        """Add an agent and hand it back; a name that is taken or is none is refused."""
        name = check_name("agent", agent.name)
        if name in self._agents:
            raise DuplicateName("agent", name)
        self._agents[name] = require_agent(agent)
        return agent

    def get(self, name: str) -> Agent:
        """The agent of this name, or an error that lists the nearest ones."""
        if name not in self._agents:
            raise UnknownName("agent", name, self._agents)
        return self._agents[name]

    def list(self) -> tuple[Agent, ...]:
        """All agents."""
        return tuple(self._agents.values())

    def search(self, *, capability: str) -> tuple[Agent, ...]:
        """The agents that declare this capability; upper and lower case are the same."""
        wanted = capability.strip().casefold()
        return tuple(agent for agent in self if wanted in map(str.casefold, capabilities_of(agent)))

    def __contains__(self, name: object) -> bool:
        return name in self._agents

    def __iter__(self) -> Iterator[Agent]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self._agents)
