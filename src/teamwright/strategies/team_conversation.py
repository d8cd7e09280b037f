"""The conversation of a running team: the turn each member gets, handoffs, the limits on turns, and the outcome.

With a handoff a member ends its turn and names the member that is next, if its strategy takes handoffs. It goes before
the order, the edges and the selector of the team, and limits on turns count it like any other turn. Budget forecasts
rely on the estimate of turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from msgspec import structs
from typing_extensions import TypeIs

from teamwright.agents.agent import Agent, Context, has_policy
from teamwright.errors import UnknownName
from teamwright.strategies.protocol import Arrow, ExpectedAsks, Members, Settings, Strategy, Task
from teamwright.values.events.team import TeamHandoff
from teamwright.values.names import transfer_tool_name
from teamwright.values.turns.messages import EMPTY, Conversation, History, Message
from teamwright.values.turns.results import Outcome, StopReason
from teamwright.values.turns.turn import AT_ITS_LIMIT, Failure, HandoffTarget, Reply, Turn

BUDGET = "budget"
"""The error kind of an ask that the budget did not cover."""
OWN_REASONS = frozenset((BUDGET, "deadline", "cancelled", "max_turns", "review_exceeded", "planning"))
"""Errors that are stop reasons: the run of a team that they fail ends with them."""
NO_ESTIMATE: ExpectedAsks = {}
MOST_ESTIMATED = 100_000
"""Above this number of asks there is no estimate: a bound that high says nothing about the work."""


def is_unaffordable(ending: Reply | Failure | None) -> TypeIs[Failure]:
    """Return whether the budget did not cover an ask, so that the team has to close."""
    return not (ending is None or isinstance(ending, Reply)) and ending.error == BUDGET and not ending.optional


class TeamConversation:
    """The conversation of a running team.

    With `share: transcript` each turn contains the whole conversation, then the task. With `share: output` it contains
    only the previous reply, as the task. `alone` says that the team has one member, which is not told when it is its
    turn. With `share: a2a_lite` replies are envelopes, and a turn contains all of them.
    """

    def __init__(self, task: Task, *, alone: bool = False) -> None:
        self._task, self._alone = task, alone
        self._said = Conversation()
        self._said.extend(task.history)
        self._start = len(self._said)
        self._last: Reply | None = None
        self.warnings: list[str] = []
        self.short_of_budget = False

    def turn(self, number: int, *, closing: bool = False) -> Turn:
        """Return the turn for the next member; `closing` says that the team ends with it."""
        task, files = self._task, self._task.attachments
        if task.settings.share != "output":
            since = None if self._alone and len(self._said) == self._start else self._start
            return Turn(task.text, self._said.history(), number, since=since, attachments=files, closing=closing)
        if self._last is None:
            return Turn(task.text, task.history, number, attachments=files, closing=closing)
        return Turn(self._last.text, EMPTY, number, closing=closing)

    def add(self, reply: Reply) -> None:
        self._said.extend(reply.messages)
        if reply.messages or reply.transfer_to is None:  # a handoff without a word passes on what its member had
            self._last = reply
        if reply.warnings:
            self.warnings += reply.lasting_warnings
        if reply.stop_reason == "budget":
            self.short_of_budget = True

    def warn(self, reply: Reply) -> None:
        """Add the warnings of a reply that is not part of the conversation, such as that of a selector; each once."""
        self.warnings += [text for text in reply.lasting_warnings if text not in self.warnings]

    def receive(self, reply: Reply | Failure) -> Outcome | None:
        """Add the result of an ask; return the outcome if it ends the team."""
        if not isinstance(reply, Reply):
            if not reply.optional:
                return self.failed(reply)
            self.warnings += reply.skipped
            return None
        self.add(reply)
        return self.ended("terminated") if reply.signal == "terminate" else None

    @property
    def history(self) -> History:
        """The conversation so far, including the history of the caller."""
        return self._said.history()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of this run, without the history of the caller."""
        return self._said.since(self._start)

    def ended(self, stop_reason: StopReason, *warnings: str) -> Outcome:
        """Return the outcome of a successful team: its answer is the last reply.

        If the budget did not cover all of the work, the stop reason `done` becomes `budget`.
        """
        last = self._last
        if self.short_of_budget and stop_reason == "done":
            stop_reason = "budget"
        return Outcome(
            stop_reason=stop_reason,
            messages=self.messages,
            data=last.full.data if last else None,
            warnings=(*self.warnings, *warnings),
        )

    def cut_short(self, failure: Failure) -> None:
        """Note that the budget did not cover an ask, and that the team closes without it."""
        self.warnings += failure.skipped
        self.short_of_budget = True

    def failed(self, failure: Failure) -> Outcome:
        """Return the outcome of a team that failed, with the messages so far and the stop reason of the run."""
        reason = cast("StopReason", failure.error if failure.error in OWN_REASONS else "error")
        return Outcome(stop_reason=reason, messages=self.messages, failure=failure, warnings=tuple(self.warnings))


def can_terminate(member: Agent) -> bool:
    """Return whether a member has the built-in `terminate` tool."""
    return member.policy.can_terminate


def stop_at_limit(talk: TeamConversation, settings: Settings, limit: str, option: str = "") -> Outcome:
    """Return the outcome of a team that reached a limit; a warning names the limit and the option that sets it."""
    text = limit_text(limit, option or f"max_turns: {settings.max_turns}")
    if settings.on_max_turns == "stop":
        return talk.ended("max_turns", text)
    failure = Failure(member="", error="max_turns", message=text)
    return talk.failed(failure).changed(stop_reason="max_turns")


def limit_text(limit: str, option: str) -> str:
    """Return the warning for a limit that was reached and the option that sets it."""
    return f"{AT_ITS_LIMIT}{limit} ({option})"


def turn_estimate(turns: int | None) -> ExpectedAsks:
    """Return the estimate for members that take numbered turns: one ask for each possible turn."""
    if (turns or 0) > MOST_ESTIMATED:
        return NO_ESTIMATE
    return {f"turn-{number}": 0 for number in range(1, (turns or 0) + 1)}


TAKEN_BY = "sequential, round_robin, selector and graph"
"""The built-in strategies that take handoffs."""


class Handoffs:
    """The handoffs of a running team; a team without any pays nothing for them."""

    def __init__(self, members: Sequence[Agent]) -> None:
        self._members = members
        targets = handoff_targets(members)
        known = {member.name: member.description for member in members} if targets else {}
        self._targets = {
            name: tuple(HandoffTarget(to, known[to]) for to in names if to in known) for name, names in targets.items()
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
        known = [one.name for one in self._members]
        if to not in known:  # on a fork, whose team has other members than the recorded one
            raise UnknownName("member", to, known)
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


def handoff_targets(members: Sequence[Agent]) -> dict[str, tuple[str, ...]]:
    """Return whom each member may hand off to, without members that have no handoffs; `True` means all others."""
    found: dict[str, tuple[str, ...]] = {}
    names: Iterable[str] = ()
    for member in filter(has_policy, members):  # a team may have thousands of members, most of them without
        if declared := member.policy.handoffs:
            names = names or dict.fromkeys(one.name for one in members)
            others = tuple(name for name in names if name != member.name)
            found[member.name] = others if declared is True else tuple(declared)
    return found


def handoff_flaws(strategy: Strategy | None, members: Members) -> list[HandoffIssue]:
    """Return the handoffs of members that their team can't make; `None` is a strategy that is not known."""
    names = dict.fromkeys(member.name for member in members)
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
