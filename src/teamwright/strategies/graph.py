"""Moves from member to member along edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from pydantic import Field, JsonValue

from teamwright.agents.agent import Context
from teamwright.agents.registry import find_cycles
from teamwright.errors import ExpressionFailed
from teamwright.strategies.edges import Edge, RouteHistory, arrows_of, edge_flaws
from teamwright.strategies.protocol import Diagram, ExpectedAsks, Issue, Members, Settings, Strategy, Task, places
from teamwright.strategies.team_conversation import (
    Handoffs,
    TeamConversation,
    handoff_arrows,
    handoff_targets,
    is_unaffordable,
    stop_at_limit,
    turn_estimate,
)
from teamwright.values.events.team import TeamRouted
from teamwright.values.limits import ClosingAsk
from teamwright.values.text.display import name_text
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure
from teamwright.values.value import Value


def _without_default(schema: dict[str, JsonValue]) -> None:
    """Keep teams whose edges are wrong from being checked as if they had none."""
    del schema["default"]


class GraphOptions(Value):
    """The edges of the graph."""

    edges: tuple[Edge, ...] = Field(
        default=(),
        min_length=1,
        description="the edges between members; the first open one is taken",
        json_schema_extra=_without_default,
    )
    allow_unreachable: bool = Field(
        default=False, description="whether a member that no edge leads to is a warning, as in ARK, or an error"
    )


class Graph(Strategy):
    """Starts with the first member and follows the first open edge, until there is none.

    A member that fails ends the team, unless an open edge from it reads `error`. A member that a handoff names is next,
    whatever the edges say; if members have handoffs, there need be no edges.
    """

    name = "graph"
    version = 1
    options = GraphOptions
    takes_handoffs = True

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that every edge can be taken, every member can be reached and cycles have a limit."""
        options = settings.read(GraphOptions)
        edges, handoffs = options.edges, handoff_targets(members)
        found = edge_flaws(edges) + _never_taken(edges)
        if not edges and not handoffs:
            return [*found, Issue("'graph' needs edges, unless members have handoffs", ("edges",))]
        if len({member.name for member in members}) < len(members):
            found.append(Issue("'graph' has one node for each member, but one is listed twice"))
        if not members:
            return found
        reached, cycle = _explored(members[0].name, edges, handoffs)
        first, way = name_text(members[0].name), "edge or handoff" if handoffs else "edge"
        found += [
            Issue(
                f"no {way} leads to {name_text(member.name)}; the team begins with {first}, its first member",
                is_warning=options.allow_unreachable,
            )
            for member in members
            if member.name not in reached
        ]
        ways = "edges and handoffs" if handoffs else "its edges"
        if cycle and settings.max_turns is None:
            found.append(Issue(f"'graph' needs max_turns, since {ways} lead back: {' → '.join(cycle)}", ("edges",)))
        return found

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        arrows = (*arrows_of(settings.read(GraphOptions).edges), *handoff_arrows(members))
        return Diagram(nodes=places(members), arrows=arrows)

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each possible turn: without a cycle, each member has at most one."""
        turns = turn_estimate(settings.max_turns)
        if members and not _explored(members[0].name, settings.read(GraphOptions).edges, handoff_targets(members))[1]:
            turns = turn_estimate(min(settings.max_turns or len(members), len(members)))
        return turns

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the member where all ways end, if there is one such member."""
        closer = _closer(settings, members)
        return [ClosingAsk(closer, 1 if settings.share == "output" else None)] if closer is not None else ()

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask members along the open edges until there is none."""
        talk, edges = TeamConversation(task, alone=len(members) == 1), task.settings.read(GraphOptions).edges
        route, handoffs = RouteHistory(task, members, edges, ctx.workspace), Handoffs(members)
        member, edge, limit = members[0], None, task.settings.max_turns
        closer = _closer(task.settings, members)
        for number in count(1):
            if limit is not None and number > limit:
                return stop_at_limit(talk, task.settings, f"{limit} turns")
            try:
                turn = talk.turn(number, closing=member.name == closer)
                turn = edge.with_task(turn, route.shared_variables) if edge else turn
                reply = await ctx.ask(member, handoffs.with_targets(member, turn), key=f"turn-{number}/{member.name}")
                if is_unaffordable(reply) and closer not in (None, member.name):
                    talk.cut_short(reply)
                    member, edge = members.named(closer), None
                    continue
                route.record(member.name, reply)
                ended = None if isinstance(reply, Failure) else talk.receive(reply)
                if not ended and (to := await handoffs.next_speaker(member, reply, ctx)) is not None:
                    member, edge = members.named(to), None
                    continue
                edge = None if ended else next(route.open_edges(), None)
            except ExpressionFailed as error:
                return talk.failed(Failure(member="", error=error.kind, message=str(error)))
            if isinstance(reply, Failure):
                ended = talk.receive(reply.changed(optional=True) if edge else reply)
            if ended:
                return ended
            if edge is None and not route.has_edges_from(member.name):
                return talk.ended("done")
            await ctx.emit(
                TeamRouted(source=member.name, to=edge.to if edge else None, when=edge.when if edge else None)
            )
            if edge is None:
                return talk.ended("done")
            member = members.named(edge.to)
        raise AssertionError("counting never ends")


def _closer(settings: Settings, members: Members) -> str | None:
    """Return the only member without a way on; `None` if there are several or none, or if it is the first."""
    onward = {edge.source for edge in settings.read(GraphOptions).edges}.union(handoff_targets(members))
    ends = [member.name for member in members if member.name not in onward]
    return ends[0] if len(ends) == 1 and members[0].name != ends[0] else None


def _never_taken(edges: Sequence[Edge]) -> list[Issue]:
    """Return a flaw for each edge after an unconditional one, unless it handles failures."""
    found: list[Issue] = []
    always: set[str] = set()
    for index, edge in enumerate(edges):
        if edge.source in always and not edge.handles_failures:
            text = f"{edge.source!r} has more than one outgoing edge, and one before this is always taken; give that a"
            found.append(Issue(f"{text} condition with 'when'", ("edges", index)))
        if edge.when is None:
            always.add(edge.source)
    return found


def _explored(start: str, edges: Sequence[Edge], handoffs: Mapping[str, Sequence[str]]) -> tuple[set[str], list[str]]:
    """Return the members that can be reached, and one cycle if there is any."""
    targets: dict[str, list[str]] = {name: list(to) for name, to in handoffs.items()}
    for edge in edges:
        targets.setdefault(edge.source, []).append(edge.to)
    reached: set[str] = set()

    def successors(name: str) -> list[tuple[str, None]]:
        reached.add(name)
        return [(to, None) for to in targets.get(name, ())]

    cycle: list[str] = []
    for found, _ in find_cycles([start], successors):
        cycle = cycle or found
    return reached, cycle
