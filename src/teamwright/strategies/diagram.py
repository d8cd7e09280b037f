"""The diagram of a team before it runs: nodes, arrows between them, and members introduced on one line.

Each strategy draws its own team. Code that displays a diagram knows nodes and arrows, but no strategy by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from teamwright.agents.contract.agent import Agent
from teamwright.values.models import Record


class Node(Record, frozen=True):
    """A node of the diagram: an agent or, without one, an event, data or another source of work.

    Without a `label` it shows the name of its agent; `about` describes in a few words what happens there.
    """

    id: str
    agent: str = ""
    label: str = ""
    about: str = ""

    @property
    def title(self) -> str:
        """The text shown for the node."""
        return self.label or self.agent or self.id


class Arrow(Record, frozen=True):
    """An arrow between two nodes, by their ids; `label` gives its condition or purpose."""

    source: str
    to: str
    label: str = ""


class Diagram(Record, frozen=True):
    """The nodes in reading order, the arrows between them, and notes about the team."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...] = ()
    notes: tuple[str, ...] = ()


def places(members: Sequence[Agent]) -> tuple[Node, ...]:
    """Return a node for each member; a member that is listed several times gets several."""
    seen: dict[str, int] = {}
    found: list[Node] = []
    for member in members:
        seen[member.name] = count = seen.get(member.name, 0) + 1
        found.append(Node(id=member.name if count == 1 else f"{member.name}#{count}", agent=member.name))
    return tuple(found)


def chain_arrows(nodes: Sequence[Node]) -> tuple[Arrow, ...]:
    """Return arrows from each node to the next."""
    return tuple(Arrow(source=before.id, to=after.id) for before, after in pairwise(nodes))


def condition_label(condition: str | None) -> str:
    """Return the label of an arrow with a condition."""
    return "" if condition is None else f"when {condition}"


def description_line(agent: Agent) -> str:
    """Return the description of an agent on one line; empty if it has none."""
    return " ".join(agent.description.split())


def introduction(agent: Agent) -> str:
    """Return the name of an agent, followed by its description if it has one."""
    about = description_line(agent)
    return f"{agent.name}: {about}" if about else agent.name
