"""The diagram of a team before it runs: nodes, and arrows between them.

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
