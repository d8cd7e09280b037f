"""The data of one scope of a run: a team's turn, an agent's turn, a named part of the work, or a branch.

Asks, effects, waits and charges all take a scope. A scope itself records nothing and never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from teamwright.agents.agent import UNSET, Agent, Policy
from teamwright.errors import DuplicateKey
from teamwright.history.recorded_charges import Charges
from teamwright.runtime.budget.closing_reserve import Holdback
from teamwright.runtime.budget.ledger import Account
from teamwright.runtime.locks import Holding
from teamwright.runtime.ordered_delivery import Lane, update_timers
from teamwright.runtime.run_state import Horizon, RunState
from teamwright.values.call_limits import Compact
from teamwright.values.events.agent import Tally
from teamwright.values.limits import Cutback, Limits
from teamwright.values.people import Answer, Question
from teamwright.values.retries import Recovery
from teamwright.values.run_keys import SEPARATOR, escape_place, join_key, relative_key
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, TalkKind, Tier, Turn
from teamwright.values.usage_and_prices import NOTHING, BudgetUnit, Usage, dollars, picodollars

if TYPE_CHECKING:
    from teamwright.runtime.working_trees.member_trees import TurnTree

ONE_CALL = Tally(calls=1)

AskPerson = Callable[[str, Question], Awaitable[Answer]]
"""Asks a person a question under a key of a scope."""


class TimeLimit(Protocol):
    """The deadline that applies to a scope."""

    @property
    def remaining(self) -> float:
        """Seconds left until the nearest deadline of this scope and its parents."""
        ...


class AskedWith(NamedTuple):
    """An attempt at an ask that was refused: its member, its turn, and what the team had cut back for it."""

    member: Agent
    turn: Turn
    cutback: Cutback
    refused: BudgetUnit | None = None
    """What its first call did not get."""


class DegradationLadder(Protocol):
    """What a team reduces while its budget is under pressure."""

    @property
    def cutback(self) -> Cutback:
        """What is reduced now."""
        ...

    def tier_of(self, member: str) -> Tier:
        """Return which of its models the member of this name answers with now."""
        ...

    def closing_recent(self) -> int | None:
        """Return how many of the latest messages a closing ask gets in full; `None` for all."""
        ...

    def least_closing_recent(self) -> int | None:
        """Return how many it gets if it is cut back as far as it can be."""
        ...

    def shorten(self, turn: Turn) -> Turn:
        """Return the turn with as much of its history as members receive now."""
        ...

    async def consider(self, scope: Scope, place: str, ask_person: AskPerson, *, closing: bool) -> None:
        """Apply or undo at most one rung before an ask begins."""
        ...

    def cut_back_for(self, scope: Scope, place: str, asked: AskedWith, failure: Failure) -> None:
        """Apply the rungs that make a refused ask cheaper, for its next attempt at `place`."""
        ...

    def can_reduce(self, asked: AskedWith) -> bool:
        """Return whether a rung would make an ask cheaper in the unit that it may be refused."""
        ...

    def is_cut_back_at(self, scope: Scope, place: str) -> bool:
        """Return whether rungs were applied for an attempt at this place; those of the record are applied now."""
        ...

    def ask_begins(self) -> None:
        """Count an ask of the team that runs from now on."""
        ...

    def ask_ended(self, key: str, charged: tuple[int, int]) -> None:
        """Count an ask of the team as done, and what it was charged, in tokens and picodollars."""
        ...


class Scope:
    """A place in the run and what applies there: account, limits, deadline, lane, keys, messages."""

    __slots__ = (
        "_claimed",
        "_horizon",
        "account",
        "agent_scope",
        "answered_at",
        "call_announced",
        "charged",
        "charges",
        "compact",
        "deadline",
        "decides_degradation",
        "degradation",
        "emitted_count",
        "fallback",
        "first_event",
        "has_ended",
        "holdback",
        "holding",
        "in_agent",
        "is_placed",
        "lane",
        "limits",
        "may_retry",
        "member",
        "messages",
        "parent",
        "path",
        "places_branches",
        "plans",
        "policy",
        "recovery",
        "run",
        "stopping",
        "talk",
        "team",
        "tier",
        "tree",
        "usage",
        "wants_whole",
    )  # fmt: skip

    def __init__(
        self,
        run: RunState,
        path: str,
        lane: Lane,
        parent: Scope | None = None,
        *,
        member: str = "",
        agent_scope: str = "",
        account: Account | None = None,
        messages: list[Message] | None = None,
    ) -> None:
        self.run, self.path, self.lane, self.parent = run, path, lane, parent
        self.member, self.agent_scope, self.account = member, agent_scope, account
        self.limits: Limits | None = None
        self.usage: Usage = NOTHING
        self.charged: tuple[int, int] = (0, 0)
        self.messages: list[Message] = [] if messages is None else messages
        self.stopping = self.call_announced = False
        self.places_branches = self.plans = False
        """Whether branches of this scope are placed on workers."""
        self.is_placed = False
        """Whether members are asked on workers here: in a branch that is placed there."""
        self.has_ended = False
        """Whether the team of this scope has recorded its ending."""
        self.answered_at = 0.0
        self.first_event = self.emitted_count = 0
        self.wants_whole = False
        """Whether a first request here is refused if its reply may be cut: the team could cut back something for it."""
        self._claimed: set[str] = set()
        self._horizon: Horizon | None = None
        if parent is not None:  # a scope inherits from its parent
            self.deadline, self.recovery, self.fallback = parent.deadline, parent.recovery, parent.fallback
            self.compact = parent.compact
            self.degradation, self.decides_degradation = parent.degradation, parent.decides_degradation
            self.holding, self.in_agent, self.holdback = parent.holding, parent.in_agent, parent.holdback
            self.team, self.tree = parent.team, parent.tree
            self.charges, self.policy, self.tier = parent.charges, parent.policy, parent.tier
            self.may_retry, self.wants_whole, self.talk = parent.may_retry, parent.wants_whole, parent.talk
            return
        self.deadline: TimeLimit | None = None
        self.recovery: Recovery | None = None
        self.compact: Compact | None = None
        self.fallback: Agent | None = None
        self.holding: Holding | None = None
        self.holdback: Holdback | None = None
        self.tree: TurnTree | None = None
        """The files of the turn, where its team has a workspace of files."""
        self.team: Agent | None = None
        """The innermost team around this scope."""
        self.degradation: DegradationLadder | None = None
        self.in_agent = self.decides_degradation = False
        self.may_retry = True
        self.policy: Policy = UNSET
        self.tier: Tier = "primary"
        self.talk: TalkKind = "none"
        self.charges = Charges()

    def open_part(self, path: str, lane: Lane, account: Account | None) -> Scope:
        """Create a named part or a branch of this scope; its messages count as messages of this scope."""
        if SEPARATOR in path[len(self.path) + 1 :]:
            self.run.reach_folders(path, self.path)
        part = Scope(
            self.run,
            path,
            lane,
            self,
            member=self.member,
            agent_scope=self.agent_scope,
            account=account,
            messages=self.messages,
        )
        part.places_branches, part.is_placed = self.places_branches, self.is_placed
        return part

    def close_tree(self) -> None:
        """Let other turns have the folder of this one."""
        if self.tree is not None and (self.parent is None or self.tree is not self.parent.tree):
            self.tree.close()

    def claim(self, key: str) -> str:
        """Reserve a key of this scope and return its recorded form; raises `DuplicateKey` if it is taken."""
        place = escape_place(key)
        if place in self._claimed:
            raise DuplicateKey(join_key(self.path, place))
        self._claimed.add(place)
        return place

    def is_claimed(self, key: str) -> bool:
        """Whether the full key of a place in this scope is taken."""
        return relative_key(key, self.path) in self._claimed

    @property
    def horizon(self) -> Horizon:
        """The point of the record up to which this scope reads the workspace."""
        if self._horizon is None:
            self._horizon = self._find_horizon()
        return self._horizon

    def _find_horizon(self) -> Horizon:
        if not self.agent_scope:
            return self.run.horizon
        if self.parent is not None and self.path != self.agent_scope:
            return self.parent.horizon
        return Horizon(self.first_event)

    def spend(self, usage: Usage) -> None:
        if usage is NOTHING:
            return
        scope: Scope | None = self
        while scope is not None:
            scope.usage = scope.usage + usage
            scope = scope.parent

    def charge(self, tokens: int, usd: int) -> None:
        """Add tokens and picodollars that the budget was charged, in this scope and its parents."""
        scope: Scope | None = self
        while scope is not None:
            scope.charged = (scope.charged[0] + tokens, scope.charged[1] + usd)
            scope = scope.parent

    def tally(self) -> Tally | None:
        """Return the sum of the effects of this agent's turn; a team has none of its own."""
        charges = self.charges
        if self.path != self.agent_scope or not charges.calls:
            return None
        if charges.calls == 1 and self.usage is NOTHING and not (charges.tokens or charges.usd or charges.marks):
            return ONE_CALL
        charged = None if charges.tokens == self.usage.total_tokens else charges.tokens
        money = None if charges.usd == picodollars(self.usage.usd) else dollars(charges.usd)
        if charged is None and money is None and charges.calls == 1 and not charges.marks:
            return ONE_CALL
        return Tally(calls=charges.calls, charged=charged, charged_usd=money, marks=charges.marks)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Within this block the branch waits for something outside of every process: for a person, or for a provider.

        Timers of what can do nothing else are paused; several tasks of one agent may wait at once on one branch.
        """
        was_working = not self.lane.parked
        self._count_wait(1)
        self.run.delivery.park(self.lane)
        try:
            yield
        finally:
            self._count_wait(-1)
            if self.in_agent and was_working:
                self.run.delivery.unpark(self.lane)

    def _count_wait(self, change: int) -> None:
        lane, before = self.lane, self.lane.outside_waits
        lane.outside_waits += change
        self.run.delivery.outside_waits += change
        if self.in_agent and (before == 0 or lane.outside_waits == 0):
            self.run.busy_agents -= change
        update_timers(lane)

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The lanes of the branches that this scope is in, outermost first."""
        found: list[Lane] = []
        scope: Scope | None = self
        while scope is not None:
            if not found or found[-1] is not scope.lane:
                found.append(scope.lane)
            scope = scope.parent
        return tuple(reversed(found))

    @property
    def branch_account(self) -> Account | None:
        """The account that the branch of this scope was started with; `None` outside branches or without limits."""
        scope = self
        while scope.parent is not None and scope.parent.lane is scope.lane:
            scope = scope.parent
        return scope.account if scope.parent is not None else None

    def enclosing_members(self) -> list[str]:
        """Return the members whose turns enclose this scope, the run's own team first."""
        found: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            if scope.path in self.run.reached_asks:
                found.append(scope.member)
            scope = scope.parent
        return found[::-1]

    @property
    def is_outermost(self) -> bool:
        """Whether this is the turn of the run's own team."""
        return self.parent is not None and not self.parent.path

    def is_within(self, team: str) -> bool:
        """Whether this scope is inside a turn of the team of this name."""
        scope: Scope | None = self
        while scope is not None and scope.member != team:
            scope = scope.parent
        return scope is not None

    @property
    def is_being_stopped(self) -> bool:
        """Whether a recorded decision stops this scope, as opposed to an interruption of the process."""
        scope: Scope | None = self
        while scope is not None and not scope.stopping:
            scope = scope.parent
        return scope is not None or self.run.cancelled

    @property
    def is_closed(self) -> bool:
        """Whether nothing from here may reach the run: its driver is stopping, or this scope was abandoned."""
        run = self.run
        return run.closing or (bool(run.abandoned) and run.is_abandoned(self.path))

    def is_cancelled_from_outside(self) -> bool:
        """Whether a cancellation raised here stops this scope, or is a mistake of code inside it.

        The state of the run decides, since libraries may reset the cancellation count of a task. Only an agent's code
        may cancel what it has started itself; there the count is all that can be checked.
        """
        if self.run.interrupted or self.is_being_stopped:
            return True
        task = asyncio.current_task()
        if task is None or self.in_agent:
            return task is not None and task.cancelling() > 0
        while task.cancelling():  # a member has cancelled its own task
            task.uncancel()
        return False
