"""From member to member along edges."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pydantic import Field

from teamwright.agents.context import Context
from teamwright.errors import ExpressionFailed
from teamwright.strategies.conversation.edges import Edge, Trail, arrows_of, edge_flaws
from teamwright.strategies.conversation.turn_limit import stop_at_limit
from teamwright.strategies.diagram import Sketch, places
from teamwright.strategies.estimate import turn_estimate
from teamwright.strategies.protocol import Flaw, Members, Outlook, Settings, Strategy, Task
from teamwright.strategies.talk import Talk
from teamwright.values.events.team import TeamRouted
from teamwright.values.models import Value
from teamwright.values.results import Outcome
from teamwright.values.text.display import name_text
from teamwright.values.turns.turn import Failure


class GraphOptions(Value):
    """Who may follow whom."""

    edges: tuple[Edge, ...] = Field(min_length=1, description="the ways between members; the first open one is taken")
    allow_unreachable: bool = Field(
        default=False, description="whether a member that no edge leads to is only worth a warning, as in ARK"
    )


class Graph(Strategy):
    """Begins with the first member and goes on along the first edge that is open, until none is.

    A member that fails ends the team, unless an edge from it looks at `error` and is open.
    """

    name = "graph"
    version = 1
    options = GraphOptions

    def problems(self, settings: Settings, members: Members) -> list[Flaw]:
        """Each edge can be taken, everybody can be reached, and a cycle has an end."""
        options = settings.read(GraphOptions)
        edges = options.edges
        found = edge_flaws(edges) + _never_taken(edges)
        if len({member.name for member in members}) < len(members):
            found.append(Flaw("'graph' has a place for each member, but one is listed twice"))
        if not members:
            return found
        reached, cycle = _explored(members[0].name, edges)
        first = name_text(members[0].name)
        found += [
            Flaw(
                f"no edge leads to {name_text(member.name)}; the team begins with {first}, its first member",
                is_warning=options.allow_unreachable,
            )
            for member in members
            if member.name not in reached
        ]
        if cycle and settings.max_turns is None:
            found.append(Flaw(f"'graph' needs max_turns, since its edges lead back: {' → '.join(cycle)}", ("edges",)))
        return found

    def sketch(self, settings: Settings, members: Members) -> Sketch:
        """The members and the ways between them."""
        return Sketch(nodes=places(members), arrows=arrows_of(settings.read(GraphOptions).edges))

    def outlook(self, settings: Settings, members: Members) -> Outlook:
        """As many turns as there may be."""
        return turn_estimate(settings)

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask, and go on."""
        talk, edges = Talk(task), task.settings.read(GraphOptions).edges
        trail = Trail(task, members, edges, ctx.workspace)
        member, edge, limit = members[0], None, task.settings.max_turns
        for number in count(1):
            if limit is not None and number > limit:
                return stop_at_limit(talk, task.settings, f"{limit} turns")
            try:
                turn = edge.changed(talk.turn(number), trail.told) if edge else talk.turn(number)
                reply = await ctx.ask(member, turn, key=f"turn-{number}/{member.name}")
                trail.take(member.name, reply)
                ended = None if isinstance(reply, Failure) else talk.receive(reply)
                edge = None if ended else next(trail.ways_on(), None)
            except ExpressionFailed as error:
                return talk.failed(Failure(member="", error=error.kind, message=str(error)))
            if isinstance(reply, Failure):
                ended = talk.receive(reply.changed(optional=True) if edge else reply)
            if ended:
                return ended
            if edge is None and not trail.leads_on(member.name):
                return talk.ended("done")
            await ctx.emit(
                TeamRouted(source=member.name, to=edge.to if edge else None, when=edge.when if edge else None)
            )
            if edge is None:
                return talk.ended("done")
            member = members.named(edge.to)
        raise AssertionError("counting never ends")


def _never_taken(edges: Sequence[Edge]) -> list[Flaw]:
    """Edges behind one that is always open; after a failure, those that look at `error` still have their use."""
    found: list[Flaw] = []
    always: set[str] = set()
    for index, edge in enumerate(edges):
        if edge.source in always and not edge.handles_failures:
            text = f"{edge.source!r} has more than one outgoing edge, and one before this is always taken; give that a"
            found.append(Flaw(f"{text} condition with 'when'", ("edges", index)))
        if edge.when is None:
            always.add(edge.source)
    return found


def _explored(start: str, edges: Sequence[Edge]) -> tuple[set[str], list[str]]:
    """Who can be reached, and a cycle on the way, if there is one."""
    ways: dict[str, list[str]] = {}
    for edge in edges:
        ways.setdefault(edge.source, []).append(edge.to)
    done: set[str] = set()
    cycle: list[str] = []
    path = {start: iter(ways.get(start, ()))}
    while path:
        here = next(reversed(path))
        there = next(path[here], None)
        if there is None:
            done.add(here)
            del path[here]
        elif there in path:
            names = list(path)
            cycle = cycle or [*names[names.index(there) :], there]
        elif there not in done:
            path[there] = iter(ways.get(there, ()))
    return done, cycle
