"""Finds agents by name and by capability, and kinds of agents that entry points bring; and the graph of agents, teams,
helpers and fallbacks that name each other: its cycles, its depth, and their limits.

There is no global registry of agents: create one where you need it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeVar, cast

from teamwright.agents.agent import Agent, require_agent
from teamwright.errors import DuplicateName, UnknownName
from teamwright.values.names import check_name
from teamwright.wings import Registered, entry_points_of

if TYPE_CHECKING:
    from teamwright.agents.functions.agent import FunctionAgent


MOST_SHOWN = 20
"""How many names of a cycle a message lists."""
MOST_CYCLES = 100
"""How many cycles of a manifest are listed: each may be as long as the manifest."""
MOST_FALLBACKS = 100
"""The maximum length of a chain of fallbacks."""
MOST_NESTED = 100
"""The maximum nesting depth of teams: each level uses part of the interpreter's stack while it runs."""


K = TypeVar("K", bound=Hashable)


P = TypeVar("P")


def find_cycles(starts: Iterable[K], edges: Callable[[K], Iterable[tuple[K, P]]]) -> Iterator[tuple[list[K], P]]:
    """Walk depth first without recursion; yield each cycle as its nodes, the first one repeated, and its last label.

    `edges` returns the successors of a node, each with the label of its edge. Each node is visited once.
    """
    done: set[K] = set()
    for start in starts:
        path = {start: iter(edges(start))} if start not in done else {}
        while path:
            here = next(reversed(path))
            step = next(path[here], None)
            if step is None:
                done.add(here)
                del path[here]
                continue
            there, label = step
            if there in path:
                nodes = list(path)
                yield [*nodes[nodes.index(there) :], there], label
            elif there not in done:
                path[there] = iter(edges(there))


def depths(starts: Iterable[K], edges: Callable[[K], Iterable[K]], weight: Callable[[K], int]) -> dict[K, int]:
    """Return for each node the greatest sum of weights on a path from it, itself included; needs an acyclic graph."""
    found: dict[K, int] = {}
    for start in starts:
        stack = [start]
        while stack:
            node = stack[-1]
            if node not in found:
                if missing := [one for one in edges(node) if one not in found]:
                    stack.extend(missing)
                    continue
                found[node] = weight(node) + max((found[one] for one in edges(node)), default=0)
            stack.pop()
    return found


def cycle_text(names: Sequence[str]) -> str:
    """Format a cycle as a path of names; omit the middle of a long one."""
    if len(names) <= MOST_SHOWN:
        return " → ".join(names)
    half = MOST_SHOWN // 2
    return " → ".join([*names[:half], f"… ({len(names) - MOST_SHOWN} more)", *names[-half:]])


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
