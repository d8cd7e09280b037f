"""Handoffs: a member ends its turn and names the member that is next, if its strategy takes handoffs.

A handoff goes before the order, the edges and the selector of the team. Limits on turns count it like any other turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import structs

from teamwright.agents.contract.agent import Agent, Context
from teamwright.errors import UnknownName
from teamwright.strategies.protocol import Arrow, Members, Strategy
from teamwright.values.events.team import TeamHandoff
from teamwright.values.names import transfer_tool_name
from teamwright.values.turns.turn import Failure, HandoffTarget, Reply, Turn

TAKEN_BY = "sequential, round_robin, selector and graph"
"""The built-in strategies that take handoffs."""


class Handoffs:
    """The handoffs of a running team; a team without any pays nothing for them."""

    def __init__(self, members: Sequence[Agent]) -> None:
        known = self._known = {member.name: member for member in members}
        self._targets = {
            name: tuple(HandoffTarget(to, known[to].description) for to in targets if to in known)
            for name, targets in handoff_targets(members).items()
        }

    def __bool__(self) -> bool:
        return bool(self._targets)

    def with_targets(self, member: Agent, turn: Turn) -> Turn:
        """Return the turn of a member with the members that it may hand off to."""
        targets = self._targets.get(member.name)
        return structs.replace(turn, handoffs=targets) if targets else turn

    async def next_speaker(self, member: Agent, reply: Reply | Failure, ctx: Context) -> str | None:
        """Return the member that a reply hands off to, and record it; `None` if there is none."""
        to = transfer_of(reply)
        if to is not None:
            await self.record(member, to, ctx)
        return to

    async def record(self, member: Agent, to: str, ctx: Context) -> None:
        """Record that a member hands off to another."""
        if to not in self._known:  # on a fork, whose team has other members than the recorded one
            raise UnknownName("member", to, self._known)
        await ctx.emit(TeamHandoff(source=member.name, to=to))


def transfer_of(reply: Reply | Failure) -> str | None:
    """Return the member that a reply hands off to; `None` if there is none."""
    return reply.full.transfer_to if isinstance(reply, Reply) else None


class HandoffIssue(NamedTuple):
    """A handoff that can't be made: `to` is the wrong target, empty if the member can't hand off at all.

    `known` are the names that it could have meant.
    """

    member: str
    text: str
    to: str = ""
    known: Sequence[str] = ()


def handoff_targets(members: Iterable[Agent]) -> dict[str, tuple[str, ...]]:
    """Return whom each member may hand off to, without members that have no handoffs; `True` means all others."""
    found: dict[str, tuple[str, ...]] = {}
    names = list(dict.fromkeys(member.name for member in members))
    for member in members:
        declared = member.policy.handoffs
        if declared:
            others = tuple(name for name in names if name != member.name)
            found[member.name] = others if declared is True else tuple(declared)
    return found


def handoff_flaws(strategy: Strategy | None, members: Members) -> list[HandoffIssue]:
    """Return the handoffs of members that their team can't make; `None` is a strategy that is not known."""
    names = list(dict.fromkeys(member.name for member in members))
    found: list[HandoffIssue] = []
    for name, targets in handoff_targets(members).items():
        others = [one for one in names if one != name]
        if strategy is not None and not strategy.takes_handoffs:
            text = f"{name!r} has handoffs, which the strategy {strategy.name!r} does not take; {TAKEN_BY} do"
            found.append(HandoffIssue(name, text))
        elif not others:
            found.append(HandoffIssue(name, f"{name!r} has handoffs and is alone in its team"))
        else:
            found += _target_flaws(name, targets, others)
    helpers = [one for one in members.names if one not in names]
    for helper in helpers:
        if members.named(helper).policy.handoffs:
            found.append(
                HandoffIssue(helper, f"{helper!r} has handoffs and is no member, so it has no turn to hand off")
            )
    return found


def _target_flaws(name: str, targets: Sequence[str], others: Sequence[str]) -> Iterable[HandoffIssue]:
    known, tools = frozenset(others), dict[str, str]()
    for to in targets:
        if to == name:
            yield HandoffIssue(name, f"{name!r} can't hand off to itself", to)
        elif to not in known:
            yield HandoffIssue(name, f"{name!r} hands off to {to!r}, which is no member of its team", to, others)
        elif (other := tools.setdefault(transfer_tool_name(to), to)) != to:
            text = f"{name!r} hands off to {other!r} and {to!r}, whose tools would have the same name"
            yield HandoffIssue(name, f"{text}, {transfer_tool_name(to)!r}", to)


def handoff_arrows(members: Sequence[Agent]) -> tuple[Arrow, ...]:
    """Return the arrows of the diagram, one for each possible handoff."""
    return tuple(
        Arrow(source=name, to=to, label="hands off")
        for name, targets in handoff_targets(members).items()
        for to in targets
    )
