"""What a team looks like before it runs: who stands where, and what leads from one to the other.

A strategy draws its own team. Whoever shows the picture knows nodes and arrows, and no strategy by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from teamwright.agents.protocol import Agent
from teamwright.values.models import Record


class Node(Record, frozen=True):
    """A place in a team: an agent's, or without one an event, data or whatever else leads on to agents.

    Without a `label` it is called like its agent; `about` says in a few words what happens there.
    """

    id: str
    agent: str = ""
    label: str = ""
    about: str = ""

    @property
    def title(self) -> str:
        """What it is called."""
        return self.label or self.agent or self.id


class Arrow(Record, frozen=True):
    """What leads from one node to another, by their ids, and on which condition or to what end."""

    source: str
    to: str
    label: str = ""


class Sketch(Record, frozen=True):
    """Nodes in the order in which they are best read, the arrows between them, and what else is worth knowing."""

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...] = ()
    notes: tuple[str, ...] = ()


def places(members: Sequence[Agent]) -> tuple[Node, ...]:
    """A node for each member; one that stands there several times has several."""
    seen: dict[str, int] = {}
    found: list[Node] = []
    for member in members:
        seen[member.name] = count = seen.get(member.name, 0) + 1
        found.append(Node(id=member.name if count == 1 else f"{member.name}#{count}", agent=member.name))
    return tuple(found)


def in_line(nodes: Sequence[Node]) -> tuple[Arrow, ...]:
    """Arrows from each node to the next."""
    return tuple(Arrow(source=before.id, to=after.id) for before, after in pairwise(nodes))


def when(condition: str | None) -> str:
    """The label of an arrow that is taken on a condition."""
    return "" if condition is None else f"when {condition}"
