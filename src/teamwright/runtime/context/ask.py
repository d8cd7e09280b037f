"""One ask: returned from the record, or answered by the member and recorded with exactly one ending."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from msgspec.structs import replace

from teamwright.agents.agent import Agent, Context, Policy
from teamwright.errors import AgentError, DuplicateKey, LimitReached, MemberFailed, MisplacedEffect
from teamwright.history.recorded_asks import RecordedAsk, recorded_reply
from teamwright.history.recorded_charges import Charges, charge_of
from teamwright.runtime.budget.closing_reserve import Holdback
from teamwright.runtime.budget.degradation import Degradation
from teamwright.runtime.budget.forecast import Forecast
from teamwright.runtime.context.timers import Deadline
from teamwright.runtime.context.turn_outcome import (
    checked_reply,
    clean_reply,
    end_team,
    ending_fact,
    failure_from,
    undelivered,
)
from teamwright.runtime.context.workspace import merge_updates, post_request
from teamwright.runtime.people.questions import ApprovalGate
from teamwright.runtime.scope import AskedWith, Scope
from teamwright.runtime.tasks import ContainedTask
from teamwright.strategies.protocol import Members
from teamwright.teams.team import Team
from teamwright.values.events.agent import AgentAbandoned, AgentAsked
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEnded
from teamwright.values.limits import NO_CUTBACK, Amounts, tighter
from teamwright.values.run_keys import SEPARATOR, join_key, with_attempt
from teamwright.values.turns.turn import Failure, Reply, Turn

RecordedEnding = tuple[Reply | Failure, Event | None]
"""The ending of a turn, and its event, which is missing when the driver is stopping."""


class Ask:
    """One ask of a member, as seen by the scope that asks. `key` is claimed already.

    `new_context` creates the context that the member works with. `first` is the number of its first attempt. A turn
    that `is_cut_back` has as much of its history as members receive now.
    """

    __slots__ = (
        "_cutback", "_key", "_member", "_policy", "_refused", "_scope", "_whole", "attempt", "gate", "new_context",
        "turn",
    )  # fmt: skip

    def __init__(
        self,
        scope: Scope,
        member: Agent,
        turn: Turn,
        key: str,
        new_context: Callable[[Scope], Context],
        policy: Policy,
        first: int = 1,
        gate: ApprovalGate | None = None,
        *,
        is_cut_back: bool = False,
    ) -> None:
        self._scope, self._member, self._key, self.new_context = scope, member, key, new_context
        self._policy, self.attempt, self.gate = policy, first, gate
        self.turn = self._whole = turn
        self._refused: LimitReached | None = None
        self._cutback = NO_CUTBACK
        if (ladder := scope.degradation) is not None:
            self._cutback = ladder.cutback
            self.turn = turn if is_cut_back else ladder.shorten(turn)

    async def resolve_with_less(self) -> Reply | Failure:
        """Resolve the ask, and again with less as long as the budget refuses it and that helps."""
        ending = await self.resolve()
        while self.is_made_again(ending):
            ending = await self.resolve()
        return ending

    def is_made_again(self, ending: Reply | Failure) -> bool:
        """Whether the budget refused the ask and it is made again, with less, which is prepared here."""
        return isinstance(ending, Failure) and ending.error == "budget" and self._cut_back()

    def _cut_back(self) -> bool:
        """Turn to the next attempt, with less; returns whether the team has cut back anything for it."""
        ladder = self._scope.degradation
        if ladder is None or not ladder.is_cut_back_at(self._scope, with_attempt(self._key, self.attempt + 1)):
            return False
        self.attempt += 1
        if ladder.cutback != self._cutback:
            self.turn = ladder.shorten(self._whole)
        self._cutback = ladder.cutback
        return True

    async def resolve(self) -> Reply | Failure:
        """Return the recorded ending in its place in journal order, or let the member take its turn.

        Where `is_made_again` says so, call it again.
        """
        scope, run = self._scope, self._scope.run
        if self.gate is not None:
            self.turn = await self.gate.approve_task(self.turn)
            self._whole = replace(self._whole, task=self.turn.task)
        place, full, recorded = self._find_recorded()
        if full in run.reached_asks or full in run.ask_folders or SEPARATOR in place:
            run.check_place(full, scope.path)
        run.reached_asks.add(full)
        if recorded is not None and recorded.ending is not None:
            reply = await _recorded_ending(scope, full, recorded, is_said=self.turn.is_said)
            return self._deliver(full, reply, run.record.deliveries.arrivals[full])
        if run.observer is not None and recorded is None:
            await run.observer.begin(full)
        if run.ask_limits.by_level:
            self._refused = run.ask_limits.refusal(full, run.reached_asks, run.record)
        child, seconds = self._begin(place, full, recorded)
        try:
            ending = await self._take_turn(child, place, seconds, recorded)
        finally:
            if child.holdback is not None and child.holdback is not scope.holdback:
                child.holdback.release()
            if child.tree is not None:
                child.close_tree()
        # `isinstance` with the other class of two structs takes five times as long as with its own.
        if not isinstance(ending, Reply) and ending.error == "budget" and not child.charges.calls and child.in_agent:
            self._take_rungs(ending, child)
        ending, event = self._record(place, ending, child)
        if full in run.record.reopened_teams:
            run.record.reopened_teams.discard(full)
            is_delivered = run.delivery.try_deliver(scope.lane, full)
        else:
            is_delivered = run.delivery.try_deliver_new(scope.lane, full)
        if not is_delivered:
            await run.delivery.wait_turn(scope.lane, full, scope.agent_scope)
        return self._deliver(full, ending, event)

    def _take_rungs(self, refused: Failure, child: Scope) -> None:
        """Apply rungs for the next attempt at a turn whose first call was refused, in one batch with its ending."""
        scope = self._scope
        if scope.degradation is not None and self._refused is None and not scope.run.closing:
            place = with_attempt(self._key, self.attempt + 1)
            asked = AskedWith(self._member, self.turn, self._cutback, child.charges.refused)
            scope.degradation.cut_back_for(scope, place, asked, refused)

    def _find_recorded(self) -> tuple[str, str, RecordedAsk | None]:
        """Return the place and key of the ask, and what is recorded there.

        On a fork, an ask whose turn differs from the record is made again under the key `…#2`.
        """
        path, run, member = self._scope.path, self._scope.run, self._member.name
        while True:
            place = self._key if self.attempt == 1 else with_attempt(self._key, self.attempt)
            full = join_key(path, place)
            recorded = run.record.asks.get(full)
            if run.trees is not None and not self._scope.in_agent:
                self.turn = run.trees.begin(self._member, self.turn, self._whole.tree, recorded)
            if recorded is None or (recorded.asked.member == member and recorded.asked.digest == self.turn.digest):
                return place, full, recorded
            run.report_mismatch(
                join_key(path, self._key),
                f"that {recorded.asked.member!r} was asked at {join_key(path, self._key)!r} with the turn"
                f" {recorded.asked.digest[:8]}, after {recorded.asked.length} messages",
                f"asks {member!r} there with the turn {self.turn.digest[:8]}, after {len(self.turn.history)} messages",
            )
            run.supersede(full, self._scope.account)
            self.attempt += 1

    def _begin(self, place: str, full: str, recorded: RecordedAsk | None) -> tuple[Scope, float | None]:
        """Open and record the scope of the turn; returns it with the seconds that the turn may take."""
        scope, run = self._scope, self._scope.run
        child = _child_scope(scope, full, self._member, self._policy)
        seconds = None if child.limits is run.limits is None else _time_limit(scope, child)
        asked = (
            recorded.asked
            if recorded
            else _asked_fact(child, self._member, self.turn, seconds, is_gated=self.gate is not None)
        )
        child.first_event = recorded.number if recorded else run.recorder.add(scope.path, place, asked).number
        child.call_announced, child.tier, child.talk = asked.called, asked.tier, self.turn.talk
        if not self.turn.may_retry:
            child.may_retry = False
        if self.turn.tree is not None and run.trees is not None and not scope.in_agent:
            child.tree = run.trees.open_turn(self._member, self.turn.tree)
        child.plans = self.turn.purpose == "coordinate" and self.turn.output_schema is not None
        if child.limits is not None:
            run.record_limits(full, child.limits)
        if child.compact is not None:
            self.turn = replace(self.turn, compact=child.compact)
        if asked.left is not None or asked.tier != "primary":
            self.turn = replace(self.turn, left=asked.left, tier=asked.tier)
        if self.turn.closing and child.in_agent and child.account is not None and scope.degradation is not None:
            unit = "usd" if child.account.priced and not child.account.counts_tokens else "tokens"
            asked = AskedWith(self._member, self.turn, self._cutback, unit)
            child.wants_whole = scope.degradation.can_reduce(asked)
        return child, seconds

    async def _take_turn(
        self, child: Scope, place: str, seconds: float | None, recorded: RecordedAsk | None
    ) -> Reply | Failure:
        """Let the member answer. If a recorded decision stops it, record its ending here."""
        scope, run = self._scope, self._scope.run
        run.open_turns[child.path] = partial(self._abandon, place, child)
        is_agent = child.in_agent
        busy = is_agent - scope.in_agent  # an agent that asks another agent is waiting
        run.busy_agents += busy
        if is_agent:
            run.delivery.enter_agent(scope.lane, child.path)
        try:
            if self.gate is not None and self.gate.refusal is not None:
                return self.gate.refusal
            if self._refused is not None:
                return failure_from(self._refused, self._member, child)
            if seconds is not None:
                ending = await self._respond_before_deadline(child, recorded, seconds)
            elif is_agent and scope.deadline is not None:
                ending = await self._respond_in_task(child)
            else:
                ending = await self._respond(child)
            if self.gate is not None and isinstance(ending, Reply):
                return await self.gate.approve_reply(ending, child)
            return ending
        except asyncio.CancelledError:
            if scope.is_being_stopped and child.path in run.open_turns:
                self._record_stop(place, child)
            raise
        finally:
            if run.open_turns.pop(child.path, None) is not None:
                run.busy_agents -= busy
                if is_agent:
                    run.delivery.leave_agent(child.path)

    def _abandon(self, place: str, child: Scope) -> None:
        """Record that the member did not end, and the ending of the turn if a recorded decision has stopped it."""
        run = child.run
        run.busy_agents -= child.in_agent - self._scope.in_agent
        if child.in_agent:
            run.delivery.leave_agent(child.path)
        _record_abandoned(child)
        if self._scope.is_being_stopped:
            self._record_stop(place, child)

    def _record_stop(self, place: str, child: Scope) -> None:
        if self._member.kind == "team":
            end_team(child, TeamEnded(stop_reason="cancelled", turns=len(child.messages)))
        ending, _ = self._record(place, failure_from(None, self._member, child), child)
        if self.turn.is_said:
            self._scope.messages += ending.messages

    def _start_task(self, child: Scope) -> ContainedTask[Reply | Failure]:
        """Start the member in its own task, so that it can be abandoned if it does not end."""

        def abandoned() -> None:
            if not child.is_closed:  # a scope around it was abandoned in the same step
                child.run.abandon(child.path)
                _record_abandoned(child)

        return ContainedTask(partial(self._respond, child), name=child.path, grace=child.run.grace, abandoned=abandoned)

    async def _respond_in_task(self, child: Scope) -> Reply | Failure:
        task = self._start_task(child)
        await task.wait()
        return task.result()

    async def _respond_before_deadline(
        self, child: Scope, recorded: RecordedAsk | None, seconds: float
    ) -> Reply | Failure:
        """Return the member's answer, or the failure that it took too long."""
        task = self._start_task(child)
        with Deadline(child, seconds, recorded.time if recorded else None, task.stop):
            await task.wait()
        if not task.stopping:
            return task.result()
        await child.run.delivery.rejoin(child.lane)
        text = f"{self._member.name!r} used up its {seconds:g} seconds"
        if self._member.kind == "team":
            end_team(child, TeamEnded(stop_reason="deadline", turns=len(child.messages), status="timeout"))
        kind = "timeout" if child.in_agent else "deadline"
        return failure_from(MemberFailed(kind, text), self._member, child)

    async def _respond(self, child: Scope) -> Reply | Failure:
        """Return the member's reply, cleaned; any error becomes a failure."""
        member = self._member
        try:
            if child.run.observer is not None:
                await child.run.observer.turn(child.path, member, self.turn)
            reply = await member.respond(self.turn, self.new_context(child))
            reply = checked_reply(reply, member)
            reply = reply if child.tree is None else child.tree.with_changes(reply, self.turn)
        except (AgentError, LimitReached) as error:
            return failure_from(error, member, child)
        except (DuplicateKey, MisplacedEffect, KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as error:
            if child.stopping or self._scope.is_cancelled_from_outside():
                raise
            inside = AgentError(f"was cancelled from inside ({type(error).__name__})")
            return failure_from(inside, member, child)
        except BaseException as error:  # any error of a member becomes a recorded failure
            if error is child.run.error:
                raise
            return failure_from(error, member, child)
        try:
            return clean_reply(reply, member, self.turn, child)
        except AgentError as error:
            return failure_from(error, member, child)

    def _record(self, place: str, ending: Reply | Failure, child: Scope) -> RecordedEnding:
        """Record the ending of the turn, and the workspace updates of its reply."""
        run = child.run
        if run.closing:
            return ending, None
        if not isinstance(ending, Reply):
            ending = undelivered(ending) if child.path in run.requests else ending
        elif ending.context_updates or ending.requests:
            ending = _shared(ending, child)
        event = run.recorder.add(self._scope.path, place, ending_fact(ending, self._member, child))
        return ending, event

    def _deliver(self, full: str, ending: Reply | Failure, event: Event | None) -> Reply | Failure:
        """Return the ending to the caller, and move the run to its event."""
        run = self._scope.run
        if event is not None:
            run.advance_to(event)
            run.delivered[full] = (event.number, ending)
        if run.requests and isinstance(ending, Reply) and (said := run.requests.get(full)):
            ending = ending.changed(requests=tuple(said))
        if self.turn.is_said:
            self._scope.messages += ending.messages
        return ending


async def _recorded_ending(scope: Scope, full: str, recorded: RecordedAsk, *, is_said: bool) -> Reply | Failure:
    """Return the recorded ending of an ask, at its place in journal order."""
    run = scope.run
    assert recorded.ending is not None
    if recorded.is_cancelled:
        await _replay_stop(scope, recorded, is_said=is_said)
    if not run.delivery.try_deliver(scope.lane, full):
        await run.delivery.wait_turn(scope.lane, full, scope.agent_scope)
    scope.spend(recorded.ending.usage)
    if scope.account is not None:
        scope.charge(*charge_of(recorded.ending))
    return recorded_reply(recorded, run.record.bodies, run.recorder.mark_stored)


async def _replay_stop(scope: Scope, recorded: RecordedAsk, *, is_said: bool) -> None:
    """Replay an ask that was cut short: wait for the same decision to stop it again."""
    assert recorded.ending is not None
    run = scope.run
    run.delivery.park(scope.lane)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        run.delivery.unpark(scope.lane)
        if is_said:
            scope.messages.extend(run.record.bodies.messages(recorded.ending.messages))
        scope.spend(recorded.ending.usage)


def _record_abandoned(child: Scope) -> None:
    run = child.run
    if child.in_agent and run.error is None and not run.recorder.held:
        run.recorder.add(child.path, "", AgentAbandoned(name=child.member, grace=run.grace))


def _shared(reply: Reply, child: Scope) -> Reply:
    """Record what a reply shares: workspace updates, and the requests of a member that a run of its own answers for.

    Returns the reply with a warning for each update that was not taken over.
    """
    for number, request in enumerate(reply.requests, start=1):
        post_request(child, request, f"request-{number}")
    refused = merge_updates(child, reply.context_updates)
    return reply.changed(context_updates={}, warnings=(*reply.warnings, *refused))


def _time_limit(scope: Scope, child: Scope) -> float | None:
    """Return how long a turn may take; the run's own limit on time applies to its outermost team."""
    own, bounds = child.limits.seconds if child.limits is not None else None, child.run.limits
    return own if bounds is None or scope.path else tighter(own, bounds.seconds)


def _asked_fact(child: Scope, member: Agent, turn: Turn, seconds: float | None, *, is_gated: bool) -> AgentAsked:
    """Return the fact that records the beginning of a turn."""
    ladder = child.parent.degradation if child.parent is not None else None
    tier = turn.tier if ladder is None or turn.tier != "primary" else ladder.tier_of(member.name)
    return AgentAsked(
        member=member.name,
        member_kind=member.kind,
        turn=turn.number,
        task=child.run.recorder.store(turn.task),
        length=len(turn.history),
        digest=turn.digest,
        purpose=turn.purpose,
        called=child.account is None and not is_gated and child.policy.one_call,
        left=None if child.account is child.deadline is seconds is None else _remaining(child, seconds),
        tier=tier,
    )


def _remaining(child: Scope, seconds: float | None) -> Amounts | None:
    """Return what remains of the budgets around a turn as it begins; `None` if none applies."""
    account, deadline = child.account, child.deadline
    if deadline is not None:
        seconds = tighter(seconds, deadline.remaining)
    if account is not None:
        return account.remaining().changed(seconds=seconds)
    return None if seconds is None else Amounts(seconds=seconds)


def _child_scope(scope: Scope, path: str, member: Agent, policy: Policy) -> Scope:
    """Create the scope of a member's turn; a team's belongs to the same agent scope, any other agent opens its own."""
    run = scope.run
    limits, team = policy.limits, member.kind == "team"
    if run.interventions is not None and not scope.path:
        limits = run.interventions.raised(limits)
    child = Scope(
        run,
        path,
        scope.lane,
        scope,
        member=member.name,
        agent_scope=scope.agent_scope if team else path,
        account=scope.account if limits is None else run.open_account(path, limits, scope.account),
    )
    child.policy, child.limits, child.decides_degradation, child.in_agent = policy, limits, False, not team
    if not team:
        child.charges = run.record.charges.open_turns.pop(path, None) or Charges()
        if child.account is not None:
            child.charge(child.charges.tokens, child.charges.usd)  # what a turn that is resumed was charged before
        return child
    child.team = member
    child.places_branches = run.place is not None and isinstance(member, Team) and member.places_branches
    ladder = None if child.account is None else Degradation.of(member, child)
    if ladder is not None:
        child.degradation, child.decides_degradation = ladder, True
    if child.account is not None and isinstance(member, Team):
        members = Members(member.members, member.helpers)
        closing = member.strategy.closing(member.settings, members)
        if closing:
            forecast = ladder and ladder.forecast
            if forecast is None:
                expected_asks = member.strategy.expected_asks(member.settings, members)
                forecast = Forecast(expected_asks, path, len(closing), lambda: child.charged)
            child.holdback = Holdback(child.account, closing, ladder, forecast)
    if policy.compact is not None:
        child.compact = policy.compact
    if policy.recovery is not None:
        child.recovery = policy.recovery.within(child.recovery)
        if isinstance(member, Team) and policy.recovery.fallback is not None:
            child.fallback = member.member_fallback
    return child
