"""Draws a team and its nested teams: with characters, for a terminal of eighty columns, or as a Mermaid flowchart.

Both draw the same picture, which is data; it knows no strategy by name. Pure: a team in, text out.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pydantic import JsonValue
from rich.cells import cell_len, set_cell_size

from teamwright.agents.agent import judges_of
from teamwright.cli.terminal.output import clean
from teamwright.strategies.plan.steps.step_options import evaluated_steps
from teamwright.strategies.protocol import Arrow, Diagram, Members, Node, description_line
from teamwright.teams.team import Team
from teamwright.values.text.display import cut

if TYPE_CHECKING:
    from teamwright.agents.agent import Agent


AS_A_TOOL = "asks as a tool"
MOST_REPEATED = 200
"""After so many teams in the JSON, a team that was described already is only named."""
WIDTH = 80
NARROWEST = 30
MOST_SPACED = 16
MOST_TEXT_LINES = 3
MOST_LINES = 12
MOST_NAMES = 120
WIDEST_NAME = 24
MEMBER, HELPER, TEAM, NO_AGENT = "●", "○", "■", "◆"
MOST_APART = 12
"""A larger group becomes a box with one arrow, because Mermaid rejects charts with more than 500 arrows."""
LONGEST = 120
ESCAPES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "|": "#124;"}


@dataclass(frozen=True, slots=True)
class Portrait:
    """What a drawing shows of an agent."""

    kind: str
    description: str = ""
    traits: tuple[str, ...] = ()
    member: bool = True

    def to_json(self) -> dict[str, JsonValue]:
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
    if team.policy.limits is not None:
        bounds = team.policy.limits.model_dump(exclude_none=True)
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


def draw_team(team: Team) -> str:
    """Draw a team as `teamwright show` does."""
    return draw_picture(picture_of(team))


def draw_picture(picture: Picture) -> str:
    """Draw the picture of a team."""
    return "\n".join(_Drawing().team(picture))


@dataclass(slots=True)
class _Drawing:
    """Builds one drawing; a team that occurs twice is drawn only the first time."""

    _known: set[str] = field(default_factory=set[str])

    def team(self, picture: Picture, width: int = WIDTH) -> Iterator[str]:
        yield from _filled(f"{TEAM} {picture.name}", " · ".join((picture.strategy, *picture.facts)), width)
        if picture.description:
            yield from _wrapped(picture.description, "  ", width)
        yield from ("  " + line for line in self._inside(picture, width - 2))

    def _inside(self, picture: Picture, width: int) -> Iterator[str]:
        """The groups from top to bottom with their arrows; in a long team, plain arrows move into the margin."""
        self._known.add(picture.name)
        if len(picture.groups) <= MOST_SPACED:
            for group, links in zip(picture.groups, _outgoing(picture), strict=True):
                yield from self._group(picture, group, width)
                yield from _arrows(picture, links, width)
            return
        gutter = "  "
        for group, links in zip(picture.groups, _outgoing(picture), strict=True):
            for line in self._group(picture, group, width - 2, most=1):
                yield gutter + line
                gutter = "  "
            lines = list(_arrows(picture, links, width - 2))
            if lines in (["↓"], ["⇅"]):
                gutter = lines[0] + " "
            else:
                yield from ("  " + line for line in lines)

    def _group(self, picture: Picture, group: Sequence[Node], width: int, most: int = MOST_TEXT_LINES) -> Iterator[str]:
        if len(group) == 1:
            yield from self._node(picture, group[0], width, most)
            return
        nested = any(node.agent in picture.teams for node in group)
        if len(group) > MOST_LINES and not nested:
            blocks = [[line] for line in _name_list(picture, group, width - 2)]
        else:
            blocks = [list(self._node(picture, node, width - 2, most)) for node in group]
        last = len(blocks) - 1
        for number, (first, *rest) in enumerate(blocks):
            yield ("┌ " if number == 0 else "└ " if number == last else "│ ") + first
            yield from (("  " if number == last else "│ ") + line for line in rest)

    def _node(self, picture: Picture, node: Node, width: int, most: int) -> Iterator[str]:
        team = picture.teams.get(node.agent)
        head = f"{_glyph(picture, node)} {_title(node)}"
        if team is None:
            yield from _filled(head, _about(node, picture.agents.get(node.agent)), width, most=most)
            return
        about = [node.about, team.strategy, *team.facts]
        if team.name in self._known:
            yield from _filled(head, " · ".join(filter(None, (*about[:2], "drawn above"))), width)
            return
        yield from _filled(head, " · ".join(filter(None, about)), width)
        yield from ("│   " + line for line in self._inside(team, max(NARROWEST, width - 4)))


def _glyph(picture: Picture, node: Node) -> str:
    if node.agent in picture.teams:
        return TEAM
    portrait = picture.agents.get(node.agent)
    return NO_AGENT if portrait is None else MEMBER if portrait.member else HELPER


def _title(node: Node) -> str:
    if node.agent and node.label and node.label != node.agent:
        return f"{node.label} ({node.agent})"
    return node.title


def _about(node: Node, portrait: Portrait | None) -> str:
    if portrait is None:
        return node.about
    return " · ".join(filter(None, (node.about, portrait.kind, *portrait.traits, portrait.description)))


def _name_list(picture: Picture, group: Sequence[Node], width: int) -> Iterator[str]:
    """A group of many nodes as a paragraph of names."""
    shown = [_title(node) for node in group[:MOST_NAMES]]
    more = [f"… and {len(group) - MOST_NAMES} more"] if len(group) > MOST_NAMES else []
    kinds = dict.fromkeys(portrait.kind for node in group if (portrait := picture.agents.get(node.agent)))
    yield from _filled(
        f"{len(group)} × {_glyph(picture, group[0])}", " · ".join(filter(None, (group[0].about, *kinds))), width
    )
    yield from textwrap.wrap(", ".join([*shown, *more]), width, break_on_hyphens=False)


def _outgoing(picture: Picture) -> Iterator[Sequence[Link]]:
    """The outgoing links of each group, without plain links that only lead back to the group above."""
    away: defaultdict[int, list[Link]] = defaultdict(list)
    for link in picture.links:
        away[link.source].append(link)
    for place in range(len(picture.groups)):
        yield away[place]
        if answer := _answer(place, away):
            away[place + 1].remove(answer)


def _answer(place: int, away: Mapping[int, Sequence[Link]]) -> Link | None:
    """The plain link back from the next group, if the only link of this group leads there."""
    if [link.to for link in away[place]] != [place + 1]:
        return None
    return next((link for link in away[place + 1] if link == Link(place + 1, place, "")), None)


def _arrows(picture: Picture, links: Sequence[Link], width: int) -> Iterator[str]:
    """One arrow down to the next group, or a list of arrows."""
    if len(links) == 1 and links[0].to == links[0].source + 1:
        link = links[0]
        answered = Link(link.to, link.source, "") in picture.links
        yield from _filled("⇅" if answered else "↓", link.label, width, gap=1)
        return
    targets: dict[str, list[Node]] = {}
    for link in links:
        targets.setdefault(link.label, []).extend(picture.groups[link.to])
    for number, (label, nodes) in enumerate(targets.items(), start=1):
        yield from _filled(f"{'└' if number == len(targets) else '├'}→ {_names(nodes)}", label, width)


def _names(group: Sequence[Node]) -> str:
    shown = ", ".join(node.title for node in group[:3])
    return shown if len(group) <= 3 else f"{shown} … ({len(group)})"


def _filled(head: str, text: str, width: int, *, gap: int = 2, most: int = MOST_TEXT_LINES) -> Iterator[str]:
    """A head with wrapped text beside it; the text of a long head starts on the next line."""
    head, text = clean(head), " ".join(clean(text).split())
    column = max(cell_len(head), min(WIDEST_NAME, width // 3) if gap > 1 else 0) + gap
    if not text:
        yield head
        return
    if column > width // 2:
        yield head
        head, column = "", 4
    first = True
    for line in _lines(text, width - column, most):
        yield (set_cell_size(head, column) if first else " " * column) + line
        first = False


def _wrapped(text: str, indent: str, width: int) -> Iterator[str]:
    yield from (indent + line for line in _lines(" ".join(clean(text).split()), width - len(indent)))


def _lines(text: str, width: int, most: int = MOST_TEXT_LINES) -> Sequence[str]:
    """A text wrapped into at most `most` lines."""
    lines = textwrap.wrap(text, max(10, width), break_on_hyphens=False)
    return lines if len(lines) <= most else [*lines[: most - 1], lines[most - 1][: max(1, width - 2)] + " …"]


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
