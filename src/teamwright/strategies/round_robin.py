"""Asks all members in order, round after round."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from pydantic import Field

from teamwright.agents.agent import Context
from teamwright.strategies.protocol import (
    Arrow,
    Diagram,
    ExpectedAsks,
    Issue,
    Members,
    Settings,
    Strategy,
    Task,
    chain_arrows,
    places,
)
from teamwright.strategies.team_conversation import (
    MOST_ESTIMATED,
    NO_ESTIMATE,
    Handoffs,
    TeamConversation,
    can_terminate,
    handoff_arrows,
    is_unaffordable,
    stop_at_limit,
)
from teamwright.values.limits import ClosingAsk
from teamwright.values.turns.results import Outcome
from teamwright.values.value import Value

MOST_TURNS = 1000
"""The number of turns of a team without another limit: it may never call the `terminate` tool."""


class RoundRobinOptions(Value):
    """A limit besides `max_turns`."""

    turns: int | None = Field(
        default=None, ge=1, description="the number of turns after which the team stops; max_turns counts rounds"
    )


class RoundRobin(Strategy):
    """Rounds of all members, until one terminates or `max_turns` rounds or `turns` turns are over.

    After a handoff the order continues from the member that it names; a round has as many turns as there are members.
    """

    name = "round_robin"
    version = 1
    options = RoundRobinOptions
    takes_handoffs = True

    def problems(self, settings: Settings, members: Members) -> list[Issue]:
        """Check that the team has a limit or a member that can terminate, and lists each member once."""
        found: list[Issue] = []
        bounded = settings.max_turns is not None or settings.read(RoundRobinOptions).turns is not None
        if not bounded and not any(map(can_terminate, members)):
            found.append(Issue("'round_robin' needs max_turns, unless a member has the 'terminate' tool"))
        elif not bounded:
            text = f"only 'terminate' ends it, so it stops after {MOST_TURNS} turns; set another limit: max_turns"
            found.append(Issue(text, is_warning=True))
        if len({member.name for member in members}) < len(members):
            found.append(Issue("'round_robin' takes each member once a round, but one is listed twice"))
        return found

    def diagram(self, settings: Settings, members: Members) -> Diagram:
        nodes = places(members)
        again = Arrow(source=nodes[-1].id, to=nodes[0].id, label="the next round")
        return Diagram(nodes=nodes, arrows=(*chain_arrows(nodes), again, *handoff_arrows(members)))

    def expected_asks(self, settings: Settings, members: Members) -> ExpectedAsks:
        """Return one ask for each possible turn; the default limit gives no estimate."""
        total = _turn_count(settings, len(members))
        if total is None or total > MOST_ESTIMATED:
            return NO_ESTIMATE
        places_ = (divmod(number, len(members)) for number in range(total))
        return {f"round-{round_ + 1}/{members[place].name}": 0 for round_, place in places_}

    def closing(self, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
        """Return the last member of the last round, if the number of turns is known."""
        total = _turn_count(settings, len(members))
        if total is None or total < 2:
            return ()
        return [ClosingAsk(members[(total - 1) % len(members)].name, 1 if settings.share == "output" else None)]

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Ask the members in turn; the warning at the end names the limit that was reached."""
        talk = TeamConversation(task, alone=len(members) == 1)
        limit, turns = task.settings.max_turns, task.settings.read(RoundRobinOptions).turns
        option = f"turns: {turns}"
        if turns is None and limit is None:
            turns, option = MOST_TURNS, "the usual bound; max_turns sets another"
        handoffs, names, place = Handoffs(members), [member.name for member in members], 0
        total = _turn_count(task.settings, len(members))
        spoken: set[str] = set()
        for number in count():
            round_, turn_of_round = divmod(number, len(members))
            if limit is not None and round_ == limit:
                return stop_at_limit(talk, task.settings, f"{limit} rounds")
            if turns is not None and number == turns:
                return stop_at_limit(talk, task.settings, f"{turns} turns", option)
            member = members[place]
            if turn_of_round == 0:
                spoken.clear()
            again = f"turn-{number + 1}/" if member.name in spoken else ""
            spoken.add(member.name)
            closing = number + 1 == total
            turn = handoffs.with_targets(member, talk.turn(number + 1, closing=closing))
            reply = await ctx.ask(member, turn, key=f"round-{round_ + 1}/{again}{member.name}")
            if is_unaffordable(reply) and total is not None and not closing:
                talk.cut_short(reply)
                closer = members[(total - 1) % len(members)]
                reply = await ctx.ask(closer, talk.turn(number + 2, closing=True), key=f"closing/{closer.name}")
                return talk.receive(reply) or talk.ended("done")
            if ended := talk.receive(reply):
                return ended
            to = await handoffs.next_speaker(member, reply, ctx)
            place = (place + 1) % len(members) if to is None else names.index(to)
        raise AssertionError("counting never ends")


def _turn_count(settings: Settings, members: int) -> int | None:
    """Return the number of turns that the settings allow, if they limit it and the team has members."""
    turns, rounds = settings.read(RoundRobinOptions).turns, settings.max_turns
    limits = [limit for limit in (turns, None if rounds is None else rounds * members) if limit]
    return min(limits, default=None) if members else None
