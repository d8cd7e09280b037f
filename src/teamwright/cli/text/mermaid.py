"""A team as a Mermaid flowchart. Pure: a picture in, text out, with every name quoted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from teamwright.cli.terminal.output import clean
from teamwright.cli.text.team_picture import Picture
from teamwright.strategies.diagram import Node
from teamwright.values.text.display import cut

MOST_APART = 12
"""A larger group becomes a box with one arrow, because Mermaid rejects charts with more than 500 arrows."""

LONGEST = 120
ESCAPES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "|": "#124;"}


def mermaid(picture: Picture) -> str:
    """The flowchart of a team."""
    return "\n".join(["flowchart TD", *_Chart().team(picture, "  ")])


@dataclass(slots=True)
class _Chart:
    """Builds one chart: it numbers the ids, and draws a team that occurs twice only the first time."""

    _count: int = 0
    _known: set[str] = field(default_factory=set[str])

    def team(self, picture: Picture, indent: str, *, about: str = "", name: str = "") -> Iterator[str]:
        """The team as a box around its members."""
        self._known.add(picture.name)
        title = " · ".join(filter(None, (picture.name, about, picture.strategy, *picture.facts)))
        yield f"{indent}subgraph {name or self._new('t')}[{_quoted(title)}]"
        ends = [self._new("g" if len(group) > MOST_APART else "n") for group in picture.groups]
        for group, end in zip(picture.groups, ends, strict=True):
            yield from self._group(picture, group, indent + "  ", end)
        for link in picture.links:
            arrow = f"-->|{_quoted(link.label)}|" if link.label else "-->"
            sources, targets = (_ends(picture.groups[place], ends[place]) for place in (link.source, link.to))
            yield f"{indent}  {sources} {arrow} {targets}"
        yield f"{indent}end"

    def _group(self, picture: Picture, group: Sequence[Node], indent: str, name: str) -> Iterator[str]:
        """The nodes of a group; many nodes are drawn in a box with the group's name."""
        boxed = len(group) > MOST_APART
        if boxed:
            title = f"{len(group)} × {group[0].about}" if group[0].about else f"{len(group)} members"
            yield f"{indent}subgraph {name}[{_quoted(title)}]"
        for number, node in enumerate(group, start=1):
            inside = node.changed(about="") if boxed else node
            yield from self._node(picture, inside, indent + "  " * boxed, _id(name, number, len(group)))
        if boxed:
            yield f"{indent}end"

    def _node(self, picture: Picture, node: Node, indent: str, name: str) -> Iterator[str]:
        team = picture.teams.get(node.agent)
        if team is not None and team.name not in self._known:
            yield from self.team(team, indent, about=node.about, name=name)
            return
        agent = node.agent if node.agent != node.title else ""
        label = "<br/>".join(_escaped(text) for text in (node.title, agent, node.about) if text)
        left, right = ("[[", "]]") if team else _shape(picture, node)
        yield f'{indent}{name}{left}"{label}"{right}'

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"


def _id(name: str, number: int, count: int) -> str:
    return name if count == 1 else f"{name}_{number}"


def _ends(group: Sequence[Node], name: str) -> str:
    """The end of an arrow to or from a group: the group's box, or each of its nodes."""
    if len(group) > MOST_APART:
        return name
    return " & ".join(_id(name, number, len(group)) for number in range(1, len(group) + 1))


def _shape(picture: Picture, node: Node) -> tuple[str, str]:
    portrait = picture.agents.get(node.agent)
    if portrait is None:
        return "([", "])"
    return ("[", "]") if portrait.member else ("(", ")")


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    plain = cut(" ".join(clean(text).split()), LONGEST, " …")
    return "".join(ESCAPES.get(character, character) for character in plain)
