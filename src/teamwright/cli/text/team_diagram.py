"""Draws a team with characters, for a terminal of eighty columns. Pure: a picture in, lines out."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size

from teamwright.cli.terminal.output import clean
from teamwright.cli.text.team_picture import Link, Picture, Portrait, picture_of
from teamwright.strategies.diagram import Node
from teamwright.teams.team import Team

WIDTH = 80
NARROWEST = 30
MOST_SPACED = 16
MOST_TEXT_LINES = 3
MOST_LINES = 12
MOST_NAMES = 120
WIDEST_NAME = 24
MEMBER, HELPER, TEAM, NO_AGENT = "●", "○", "■", "◆"


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
