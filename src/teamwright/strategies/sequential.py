"""Asks each member once, in order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice

from teamwright.agents.agent import Context
from teamwright.strategies.protocol import (
    Diagram,
    ExpectedAsks,
    Issue,
    Members,
    NoOptions,
    Settings,
    Strategy,
    Task,
    chain_arrows,
    places,
)
from teamwright.strategies.team_conversation import (
    Handoffs,
    TeamConversation,
    handoff_arrows,
    handoff_targets,
    is_unaffordable,
    stop_at_limit,
    transfer_of,
)
from teamwright.values.limits import ClosingAsk
from teamwright.values.turns.results import Outcome


class Sequential(Strategy):
    """A pipeline of members. A member may occur in it several times.

    A handoff jumps to the next place of the member that it names, and the pipeline continues from there.
    """

    name = "sequential"
    version = 1
    options = NoOptions
    unused = ("max_turns", "on_max_turns")
    takes_handoffs = True

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that handoffs that lead back have a limit."""
        if settings.max_turns is not None:
            return []
        names = [member.name for member in members]
        targets = handoff_targets(members)
        back = (
            (name, to)
            for place, name in enumerate(names)
            for to in targets.get(name, ())
            if to in names and _jump(names, place, to) < place
        )
        return [
            Issue(f"'sequential' needs max_turns, since {name!r} may hand back to {to!r}")
            for name, to in islice(back, 1)
        ]

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        nodes = places(members)
        return Diagram(nodes=nodes, arrows=(*chain_arrows(nodes), *handoff_arrows(members)))

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        return {f"step-{number}": 0 for number in range(1, len(members) + 1)}

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the last member: if the budget is short, the members between are skipped."""
        reads = 1 if settings.share == "output" else None
        return [ClosingAsk(members[-1].name, reads)] if len(members) > 1 else ()

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask the members in order, until one fails or terminates."""
        talk, handoffs = TeamConversation(task, alone=len(members) == 1), Handoffs(members)
        hands_off = bool(handoffs)
        limit = task.settings.max_turns if hands_off else None
        order, place = tuple(members), 0
        end = len(order) - 1
        for number in count(1):
            if place > end:
                return talk.ended("done")
            if limit is not None and number > limit:
                return stop_at_limit(talk, task.settings, f"{limit} turns")
            member, last = order[place], place == end
            turn = talk.turn(number, closing=last)
            if hands_off:
                turn = handoffs.with_targets(member, turn)
            reply = await ctx.ask(member, turn, key=f"step-{number}")
            if is_unaffordable(reply) and not last:
                talk.cut_short(reply)
                place = end
                continue
            if ended := talk.receive(reply):
                return ended
            to = transfer_of(reply)
            if to is not None:
                await handoffs.record(member, to, ctx)
            place = place + 1 if to is None else _jump([one.name for one in order], place, to)
        raise AssertionError("counting never ends")


def _jump(names: Sequence[str], place: int, to: str) -> int:
    """Return the next place of a member in the pipeline; its first one if there is none after this place."""
    return names.index(to, place + 1) if to in names[place + 1 :] else names.index(to)
