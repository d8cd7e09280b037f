"""The one door: asks, effects, people, scopes and branches, recorded on the way in and on the way out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import NoReturn, TypeVar

import anyio
from msgspec import structs
from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.agents.context import Branches, Clock, Context
from teamwright.agents.effect import Effect, Returned
from teamwright.agents.protocol import Agent
from teamwright.budget.ledger import Account
from teamwright.budget.money import dollars, picodollars
from teamwright.errors import (
    AgentTimeout,
    DuplicateKey,
    MisplacedEffect,
    UsageError,
)
from teamwright.history.record.spending import Spending
from teamwright.runtime.context.approval import Gate
from teamwright.runtime.context.ask import Ask
from teamwright.runtime.context.branches import RunBranches
from teamwright.runtime.context.clock import ScopeClock
from teamwright.runtime.context.deadline import Deadline
from teamwright.runtime.context.effect import Calls
from teamwright.runtime.context.question import Inquiry
from teamwright.runtime.context.recovery import Recovering
from teamwright.runtime.context.workspace import Horizon, RunWorkspace
from teamwright.runtime.ordering.lane import Lane
from teamwright.runtime.ordering.path_locks import Holding
from teamwright.runtime.run_state import RunState
from teamwright.runtime.spending.degradation import Degradation
from teamwright.runtime.steady_clock import remaining_wait
from teamwright.values.degradation import AT_EASE, Posture
from teamwright.values.events.agent import Tally
from teamwright.values.events.custom import Custom
from teamwright.values.events.event import ENGINES_OWN, Fact
from teamwright.values.events.run import RunAborted, TimerFired, TimerSet
from teamwright.values.key import SEPARATOR, escape_place, join_key, key_below_root
from teamwright.values.limits import Limits, Recovery
from teamwright.values.messages import Message
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer, Question
from teamwright.values.turns import Failure, Reply, Turn
from teamwright.values.usage import NOTHING, Usage

T = TypeVar("T")

ONE_CALL = Tally(calls=1)


class RunContext:
    """The context of one scope: a team's, an agent's, a named part's or a branch's."""

    __slots__ = (
        "_claimed", "_clock", "_emitted", "_workspace", "account", "agent_scope", "announced",
        "began", "deadline", "degradation", "fallback", "heard_at", "holding", "in_agent", "lane", "limits", "member",
        "parent", "path", "recovery", "run", "said", "spending", "stopping", "usage", "weighs",
    )  # fmt: skip

    def __init__(
        self,
        run: RunState,
        path: str,
        lane: Lane,
        parent: RunContext | None = None,
        *,
        member: str = "",
        agent_scope: str = "",
        account: Account | None = None,
        said: list[Message] | None = None,
    ) -> None:
        self.run, self.path, self.lane, self.parent = run, path, lane, parent
        self.member, self.agent_scope, self.account = member, agent_scope, account
        self.limits: Limits | None = None
        self.usage: Usage = NOTHING
        self.said: list[Message] = [] if said is None else said
        self.stopping = self.announced = False
        self.heard_at = 0.0
        self.began = self._emitted = 0
        self._claimed: set[str] = set()
        self._clock: ScopeClock | None = None
        self._workspace: RunWorkspace | None = None
        if parent is not None:  # what holds around a scope holds in it
            self.deadline, self.recovery, self.fallback = parent.deadline, parent.recovery, parent.fallback
            self.holding, self.degradation, self.weighs = parent.holding, parent.degradation, parent.weighs
            self.in_agent, self.spending = parent.in_agent, parent.spending
            return
        self.deadline: Deadline | None = None
        self.recovery: Recovery | None = None
        self.fallback: Agent | None = None
        self.holding: Holding = run.ownership.everything
        self.degradation: Degradation | None = None
        self.in_agent = self.weighs = False
        self.spending = Spending()

    @property
    def clock(self) -> Clock:
        """Time and chance of this scope."""
        if self._clock is None:
            self._clock = ScopeClock(self.run.seed, self.path, self._now, self._sleep)
        return self._clock

    @property
    def workspace(self) -> RunWorkspace:
        """What the run shares, as this scope sees it."""
        if self._workspace is None:
            self._workspace = RunWorkspace(self, self._horizon())
        return self._workspace

    def _horizon(self) -> Horizon:
        if not self.agent_scope:
            return self.run.horizon
        if self.parent is not None and self.path != self.agent_scope:
            return self.parent.workspace.horizon
        return Horizon(self.began)

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure:
        """Let a member take its turn. Recorded already, it is handed back and nobody is called."""
        run = self.run
        if (run.closing or run.abandoned) and self.closed:
            await run.left()
        place = self.claim(key)
        ladder = self.degradation if self.weighs else None
        if ladder is not None:
            await ladder.consider(self, place)
        if self.degradation is not None:
            turn = self.degradation.told(turn)
        redactor = run.redactor
        # An earlier version told the text as it was, and its digest is in the record.
        if redactor.values and run.format > 1 and (task := redactor.text(turn.task)) is not turn.task:
            turn = structs.replace(turn, task=task)
        gate = None if getattr(member, "approve", None) is None else Gate.of(self, member, place)
        ask = Ask(self, member, turn, place, gate=gate)
        try:
            ending = await ask.ending()
            if isinstance(ending, Failure) and Recovering.may_help(ending):
                ending = await Recovering(ask, self, member, place).ending(ending)
        finally:
            if ladder is not None:
                ladder.ended(join_key(self.path, place))
        if isinstance(ending, Failure) and getattr(member, "optional", False):
            return ending.changed(optional=True)
        return ending

    def effect(self, key: str, effect: Effect) -> Awaitable[Returned]:
        """Touch the world once."""
        if (self.run.closing or self.run.abandoned) and self.closed:
            return self.run.left()
        place = self.claim(key)
        if not self.agent_scope:
            raise MisplacedEffect(join_key(self.path, key))
        return Calls(self, place, effect).outcome()

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        """Ask a person; the process may end while nobody has answered."""
        return await self.ask_person_at(self.claim(key), question)

    async def ask_person_at(self, place: str, question: Question) -> Answer:
        """Ask a person at a place that is claimed already, or that nobody else can claim."""
        if self.closed:
            await self.run.left()
        return await Inquiry(self, place, question).answer()

    async def abort_over(self, failure: Failure) -> NoReturn:
        """End the run over this failure, because a person chose to abort; policies on failures do not apply."""
        run = self.run
        if run.aborted is None:
            path = SEPARATOR.join((*self._members(), failure.member))
            text = f"{key_below_root(path)!r} failed: {failure.message} (a person chose to abort)"
            run.aborted = RunAborted(member=path, error=failure.error, message=text)
            run.recorder.add("", "", run.aborted)
        run.cancel()
        run.turnstile.park(self.lane)
        try:
            await run.left()
        finally:
            run.turnstile.unpark(self.lane)

    def _members(self) -> list[str]:
        """Those around this scope who were asked, the run's own team first."""
        found: list[str] = []
        context: RunContext | None = self
        while context is not None:
            if context.path in self.run.asked:
                found.append(context.member)
            context = context.parent
        return found[::-1]

    @property
    def posture(self) -> Posture:
        """How freely the team may work now."""
        return AT_EASE if self.degradation is None else self.degradation.posture

    @property
    def owned(self) -> Owned:
        """What may be written from here."""
        return self.holding.owned

    @asynccontextmanager
    async def scope(
        self, name: str, limits: Limits | None = None, owns: Collection[str] | None = None, priority: int = 0
    ) -> AsyncGenerator[Context]:
        """A named part of the work, with limits and keys of its own; its time begins when it has its keys."""
        full = join_key(self.path, self.claim(name))
        account = self.run.account(full, limits, self.account)
        child = self._part(full, self.lane, account)
        if limits is not None:
            self.run.bound(full, limits)
        if owns is None:
            async with self._in_time(child, name, limits):
                yield child
            return
        if self.closed:
            await self.run.left()
        held = await self.run.ownership.take(child, tuple(owns), priority)
        child.holding = held.inside
        try:
            async with self._in_time(child, name, limits):
                yield child
        finally:
            held.give_back()

    @asynccontextmanager
    async def _in_time(self, child: RunContext, name: str, limits: Limits | None) -> AsyncGenerator[None]:
        """Stop what runs inside when its time is used up."""
        if limits is None or limits.seconds is None:
            yield
            return
        with Deadline(child, limits.seconds, since=self.run.now) as deadline:
            yield
        if deadline.expired:
            await self.run.turnstile.rejoin(self.lane)
            raise AgentTimeout(f"{name!r} used up its {limits.seconds:g} seconds")

    def branches(self, limit: int, *, until: Callable[[], bool] | None = None) -> AbstractAsyncContextManager[Branches]:
        """Run branches side by side, at most `limit` at once, until all have ended or `until` holds."""
        return RunBranches(self, limit, until)

    async def emit(self, fact: Fact) -> None:
        """Record something worth knowing, once."""
        if fact.__class__ in ENGINES_OWN:
            raise UsageError(f"Only the engine records {fact.kind!r}; for something of your own, emit a Custom.")
        if self.closed:
            return
        self._emitted += 1
        place = f"event-{self._emitted}"
        if not self._noted(fact.kind, place):
            if isinstance(fact, Custom):
                fact = fact.changed(data=_json(self.run.redactor.value(fact.data)))
            else:
                fact = self._redacted(fact)
            self.run.recorder.add(self.path, place, fact)

    def _redacted(self, fact: Fact) -> Fact:
        """The fact without secrets in any of its texts."""
        changed: dict[str, str] = {}
        for name in fact.__struct_fields__:
            text: object = getattr(fact, name)
            if isinstance(text, str) and (clean := self.run.redactor.text(text)) is not text:
                changed[name] = clean
        return fact.changed(**changed) if changed else fact

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The branches that this scope is in, the run's own first."""
        found: list[Lane] = []
        context: RunContext | None = self
        while context is not None:
            if not found or found[-1] is not context.lane:
                found.append(context.lane)
            context = context.parent
        return tuple(reversed(found))

    def branch(self, name: str, lane: Lane) -> RunContext:
        """The context of a branch of this scope."""
        return self._part(join_key(self.path, self.claim(name)), lane, self.account)

    def _part(self, path: str, lane: Lane, account: Account | None) -> RunContext:
        """The context of a part of this scope: whatever is said there is said here."""
        return RunContext(
            self.run,
            path,
            lane,
            self,
            member=self.member,
            agent_scope=self.agent_scope,
            account=account,
            said=self.said,
        )

    def claim(self, key: str) -> str:
        """Take a key of this scope, each once, and return it as it stands in the record."""
        place = escape_place(key)
        if place in self._claimed:
            raise DuplicateKey(join_key(self.path, place))
        self._claimed.add(place)
        return place

    def spend(self, usage: Usage) -> None:
        """Add to what this scope and all around it have used."""
        if usage is NOTHING:
            return
        context: RunContext | None = self
        while context is not None:
            context.usage = context.usage + usage
            context = context.parent

    def tally(self) -> Tally | None:
        """What the effects of this agent's turn came to; a team has none of its own."""
        spending = self.spending
        if self.path != self.agent_scope or not spending.calls:
            return None
        if spending.calls == 1 and self.usage is NOTHING and not (spending.tokens or spending.usd or spending.marks):
            return ONE_CALL
        charged = None if spending.tokens == self.usage.total_tokens else spending.tokens
        money = None if spending.usd == picodollars(self.usage.usd) else dollars(spending.usd)
        if charged is None and money is None and spending.calls == 1 and not spending.marks:
            return ONE_CALL
        return Tally(calls=spending.calls, charged=charged, charged_usd=money, marks=spending.marks)

    def child(self, path: str, member: Agent) -> RunContext:
        """The context of a member's turn: a team's belongs to whoever asks, any other agent's is its own affair."""
        limits: Limits | None = getattr(member, "limits", None)
        team = member.kind == "team"
        child = RunContext(
            self.run,
            path,
            self.lane,
            self,
            member=member.name,
            agent_scope=self.agent_scope if team else path,
            account=self.account if limits is None else self.run.account(path, limits, self.account),
        )
        child.limits, child.weighs, child.in_agent = limits, False, not team
        if not team:
            child.spending = self.run.past.spending.open.pop(path, None) or Spending()
            return child
        if (ladder := Degradation.of(member, child)) is not None:
            child.degradation, child.weighs = ladder, True
        if (recovery := getattr(member, "recovery", None)) is not None:
            child.recovery, child.fallback = recovery, getattr(member, "fallback_of_members", None)
        return child

    def is_within(self, team: str) -> bool:
        """Whether this scope lies inside a turn of the team of this name."""
        context: RunContext | None = self
        while context is not None and context.member != team:
            context = context.parent
        return context is not None

    @property
    def being_stopped(self) -> bool:
        """Whether a recorded decision stops this scope, as opposed to the process being interrupted."""
        context: RunContext | None = self
        while context is not None and not context.stopping:
            context = context.parent
        return context is not None or self.run.cancelled

    @property
    def closed(self) -> bool:
        """Whether nothing may reach the run from here: its driver is leaving, or this scope was abandoned."""
        run = self.run
        return run.closing or (bool(run.abandoned) and run.is_abandoned(self.path))

    def cancelled_from_outside(self) -> bool:
        """Whether a cancellation that was raised here stops this scope, or is a mistake of something inside it.

        The state of the run decides, since libraries may reset the count of the task. Only the code of an agent may
        cancel what it has started itself; there the count is all that can be looked at.
        """
        if self.run.interrupted or self.being_stopped:
            return True
        task = asyncio.current_task()
        if task is None or self.in_agent:
            return task is not None and task.cancelling() > 0
        while task.cancelling():  # a member that cancelled its own task
            task.uncancel()
        return False

    async def _sleep(self, name: str, seconds: float) -> None:
        if self.closed:
            await self.run.left()
        place = self.claim(name)
        full = join_key(self.path, place)
        past = self.run.past
        if full in past.fired:
            await self.run.turnstile.arrive(self.lane, full, self.agent_scope)
            self.run.arrived(past.deliveries.arrivals[full])
            return
        if full not in past.timers:
            self.run.recorder.add(self.path, place, TimerSet(seconds=seconds))
        left = remaining_wait(past.timers[full], self.run.wall(), seconds) if full in past.timers else seconds
        await self._wait_outside(left)
        event = self.run.recorder.add(self.path, place, TimerFired())
        self.run.turnstile.announce(full)
        await self.run.turnstile.arrive(self.lane, full, self.agent_scope)
        self.run.arrived(event)

    async def _wait_outside(self, seconds: float) -> None:
        """Let time pass while the branch counts as waiting and the run as busy."""
        if self.agent_scope:
            await self.run.turnstile.caught_up(self.lane, self.agent_scope)
        self.run.agents_at_work += 1
        self.run.turnstile.park(self.lane)
        try:
            await self.run.recorder.durable()
            await anyio.sleep(max(0.0, seconds))
        finally:
            self.run.agents_at_work -= 1

    def _now(self) -> float:
        """When the last thing reached the run, or this agent, whose answers are its own affair."""
        return max(self.run.now, self.heard_at)

    def _noted(self, kind: str, place: str) -> bool:
        return (kind, self.path, place) in self.run.past.noted


def _json(data: JsonValue) -> JsonValue:
    """What will be read back of somebody's data."""
    try:
        return from_json(to_json(data, inf_nan_mode="null"))
    except ValueError as error:
        raise UsageError(f"The data of an event must be JSON: {error}") from error
