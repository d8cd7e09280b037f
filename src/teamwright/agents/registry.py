"""Finds agents by name and by capability, and kinds of agents that entry points bring.

There is no global registry of agents: create one where you need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

from teamwright.agents.contract.agent import Agent, require_agent
from teamwright.errors import DuplicateName, UnknownName
from teamwright.values.names import check_name
from teamwright.wings import Registered, entry_points_of

if TYPE_CHECKING:
    from teamwright.agents.functions.agent import FunctionAgent

A = TypeVar("A", bound=Agent)


class AgentRegistry:
    """Agents by name, in the order of registration."""

    def __init__(self, agents: Iterable[Agent] = ()) -> None:
        self._agents: dict[str, Agent] = {}
        for agent in agents:
            self.register(agent)

    def register(self, agent: A) -> A:
        """Add an agent and return it; raises if its name is invalid or already registered."""
        name = check_name("agent", agent.name)
        if name in self._agents:
            raise DuplicateName("agent", name)
        self._agents[name] = require_agent(agent)
        return agent

    def get(self, name: str) -> Agent:
        """Return the agent of this name, or raise an error that suggests the nearest names."""
        if name not in self._agents:
            raise UnknownName("agent", name, self._agents)
        return self._agents[name]

    def list(self) -> tuple[Agent, ...]:
        return tuple(self._agents.values())

    def search(self, *, capability: str) -> tuple[Agent, ...]:
        """Return the agents that declare this capability, ignoring case."""
        wanted = capability.strip().casefold()
        return tuple(agent for agent in self if wanted in map(str.casefold, agent.capabilities))

    def __contains__(self, name: object) -> bool:
        return name in self._agents

    def __iter__(self) -> Iterator[Agent]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self._agents)


GROUP = "teamwright.agents"
"""The entry points of kinds of agents, by the key of a manifest that declares one."""


@cache
def _kinds() -> Registered:
    return Registered(entry_points_of(GROUP))


def load_agent_kind(name: str) -> Callable[..., FunctionAgent]:
    """Return what makes agents of a kind; raises `MissingExtra` if a wing would bring it, which is not there."""
    point = _kinds().here.get(name)
    if point is None:
        raise _kinds().missing("kind of agent", name) or UnknownName("kind of agent", name, _kinds().here)
    return cast("Callable[..., FunctionAgent]", point.load())
