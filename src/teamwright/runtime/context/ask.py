"""One ask: found in the record, or taken by the member, and recorded with exactly one ending."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from teamwright.agents.handoff import handed_over, handover_from
from teamwright.agents.protocol import Agent
from teamwright.errors import (
    AgentError,
    DuplicateKey,
    LimitReached,
    MemberFailed,
    MisplacedEffect,
)
from teamwright.history.record.asks import RecordedAsk
from teamwright.history.record.recorded_reply import recorded_reply
from teamwright.runtime.cancellation import ContainedTask
from teamwright.runtime.context.deadline import Deadline
from teamwright.runtime.context.size_cap import reply_within_cap
from teamwright.values.events.agent import AgentAbandoned, AgentAsked, AgentFailed, AgentReplied
from teamwright.values.events.event import Event
from teamwright.values.key import join_key, with_attempt
from teamwright.values.limits import tighter
from teamwright.values.messages import Message
from teamwright.values.models import JsonValue
from teamwright.values.text.display import LONGEST_ERROR, cut, error_text
from teamwright.values.turns import Failure, Reply, Turn
from teamwright.values.usage import Amounts

if TYPE_CHECKING:
    from teamwright.runtime.context.approval import Gate
    from teamwright.runtime.context.context import RunContext


Ended = tuple[Reply | Failure, Event | None]
"""How a turn ended, and the event that says so; there is none when the run is being left."""


class Ask:
    """One member's turn, as the scope that asks sees it. `key` is claimed already."""

    __slots__ = ("_alone", "_child", "_context", "_key", "_member", "_place", "attempt", "gate", "turn")

    def __init__(
        self, context: RunContext, member: Agent, turn: Turn, key: str, first: int = 1, gate: Gate | None = None
    ) -> None:
        self._context, self._member, self._key = context, member, key
        self.turn, self.attempt, self.gate = turn, first, gate
        self._alone = member.kind != "team"
        """Whether the member answers by itself, as opposed to a team, whose members do."""
        self._place: str
        self._child: RunContext

    async def ending(self) -> Reply | Failure:
        """The recorded ending, in its place in the order of the journal, or a new one."""
        context, run = self._context, self._context.run
        if self.gate is not None:
            self.turn = await self.gate.told(self.turn)
        place, full, recorded = self._match()
        if full in run.asked:  # by another way to write the same key: `a/b` here, and `b` in the scope `a`
            raise DuplicateKey(full)
        run.asked.add(full)
        if recorded is not None and recorded.ending is not None:
            if recorded.stopped:
                await self._until_stopped(recorded)
            if not run.turnstile.passes(context.lane, full):
                await run.turnstile.arrive(context.lane, full, context.agent_scope)
            context.spend(recorded.ending.usage)
            return self._hear(
                full, recorded_reply(recorded, run.past.bodies, run.recorder.know), run.past.deliveries.arrivals[full]
            )
        child, seconds = self._begun(place, full, recorded)
        ending = await self._take_turn(child, place, seconds, recorded)
        ending, event = self._record(place, ending, child)
        if full in run.past.reopened:
            run.past.reopened.discard(full)
        else:
            run.turnstile.announce(full)
        if not run.turnstile.passes(context.lane, full):
            await run.turnstile.arrive(context.lane, full, context.agent_scope)
        return self._hear(full, ending, event)

    def _match(self) -> tuple[str, str, RecordedAsk | None]:
        """Its place, its key, and what is recorded there. On a fork, what was told otherwise is asked anew, as `#2`."""
        path, run, member = self._context.path, self._context.run, self._member.name
        while True:
            place = with_attempt(self._key, self.attempt)
            full = join_key(path, place)
            recorded = run.past.asks.get(full)
            if recorded is None or (recorded.asked.member == member and recorded.asked.digest == self.turn.digest):
                return place, full, recorded
            run.disagree(
                join_key(path, self._key),
                f"that {recorded.asked.member!r} was asked at {join_key(path, self._key)!r} with the turn"
                f" {recorded.asked.digest[:8]}, after {recorded.asked.length} messages",
                f"asks {member!r} there with the turn {self.turn.digest[:8]}, after {len(self.turn.history)} messages",
            )
            run.supersede(full, self._context.account)
            self.attempt += 1

    def _begun(self, place: str, full: str, recorded: RecordedAsk | None) -> tuple[RunContext, float | None]:
        """The context of the turn, which is in the record from here on, and how many seconds it may take."""
        context, run = self._context, self._context.run
        child = context.child(full, self._member)
        seconds = self._seconds(child)
        asked = recorded.asked if recorded else self._asked(child, seconds)
        child.began = recorded.number if recorded else run.recorder.add(context.path, place, asked).number
        child.announced = asked.called
        if child.limits is not None:
            run.bound(full, child.limits)
        if run.format == 1:
            self.turn = replace(self.turn, quoting="none")
        if asked.left is not None or asked.tier != "primary":
            self.turn = replace(self.turn, left=asked.left, tier=asked.tier)
        return child, seconds

    def _asked(self, child: RunContext, seconds: float | None) -> AgentAsked:
        turn = self.turn
        return AgentAsked(
            member=self._member.name,
            member_kind=self._member.kind,
            turn=turn.number,
            task=self._context.run.recorder.keep(turn.task),
            length=len(turn.history),
            digest=turn.digest,
            purpose=turn.purpose,
            called=child.account is None and self.gate is None and getattr(self._member, "one_call", False),
            left=self._left(child, seconds),
            tier="primary" if self._context.degradation is None else self._context.degradation.tier(self._member),
        )

    def _left(self, child: RunContext, seconds: float | None) -> Amounts | None:
        """What is left of the budgets around the turn as it begins; nothing where none bounds it."""
        account, deadline = child.account, child.deadline
        if deadline is not None:
            seconds = tighter(seconds, deadline.remaining)
        if account is not None:
            return account.left().changed(seconds=seconds)
        return None if seconds is None else Amounts(seconds=seconds)

    def _seconds(self, child: RunContext) -> float | None:
        """How long the turn may take; the run's own limit on time is that of its outermost team."""
        own = child.limits.seconds if child.limits is not None else None
        bounds = child.run.limits
        return own if bounds is None or self._context.path else tighter(own, bounds.seconds)

    async def _take_turn(
        self, child: RunContext, place: str, seconds: float | None, recorded: RecordedAsk | None
    ) -> Reply | Failure:
        """Let the member answer; one that is stopped by others has its ending recorded here."""
        context, run = self._context, self._context.run
        self._place, self._child = place, child
        run.turns[child.path] = self
        at_work = self._alone - context.in_agent  # an agent that asks another one is waiting
        run.agents_at_work += at_work
        if self._alone:
            run.turnstile.enter_agent(context.lane, child.path)
        try:
            if self.gate is not None and self.gate.refusal is not None:
                return self.gate.refusal
            if seconds is not None:
                ending = await self._in_time(child, recorded, seconds)
            elif self._alone and context.deadline is not None:
                ending = await self._contained(child)
            else:
                ending = await self._respond(child)
            if self.gate is not None and isinstance(ending, Reply):
                return await self.gate.passed(ending, child)
            return ending
        except asyncio.CancelledError:
            if context.being_stopped and child.path in run.turns:
                self._say(self._record(place, self._failure(child, None), child)[0])
            raise
        finally:
            if run.turns.pop(child.path, None) is not None:
                run.agents_at_work -= at_work
                if self._alone:
                    run.turnstile.leave_agent(child.path)

    def abandon(self) -> None:
        """Record that the member did not end, and the turn's ending where a recorded decision has stopped it."""
        child, run = self._child, self._context.run
        run.agents_at_work -= self._alone - self._context.in_agent
        if self._alone:
            run.turnstile.leave_agent(child.path)
        self._abandoned(child)
        if self._context.being_stopped:
            self._say(self._record(self._place, self._failure(child, None), child)[0])

    def _abandoned(self, child: RunContext) -> None:
        run = child.run
        if self._alone and run.error is None and not run.recorder.held:
            run.recorder.add(child.path, "", AgentAbandoned(name=self._member.name, grace=run.grace))

    def _task(self, child: RunContext) -> ContainedTask[Reply | Failure]:
        """The member's answer in a task of its own, so that a member that does not end can be abandoned."""

        def abandoned() -> None:
            if not child.closed:  # by a scope around it, which was abandoned in the same moment
                child.run.abandon(child.path)
                self._abandoned(child)

        return ContainedTask(self._respond(child), name=child.path, grace=child.run.grace, abandoned=abandoned)

    async def _contained(self, child: RunContext) -> Reply | Failure:
        task = self._task(child)
        await task.ended()
        return task.result()

    async def _in_time(self, child: RunContext, recorded: RecordedAsk | None, seconds: float) -> Reply | Failure:
        """The member's answer, or the failure that it took too long."""
        task = self._task(child)
        with Deadline(child, seconds, recorded.time if recorded else None, task.stop):
            await task.ended()
        if not task.stopping:
            return task.result()
        await child.run.turnstile.rejoin(child.lane)
        text = f"{self._member.name!r} used up its {seconds:g} seconds"
        return self._failure(child, MemberFailed("deadline" if self._member.kind == "team" else "timeout", text))

    async def _respond(self, child: RunContext) -> Reply | Failure:
        try:
            reply = await self._member.respond(self.turn, child)
            if reply.__class__ is not Reply or not reply.well_formed:
                raise AgentError(f"{self._member.name!r} must answer with a Reply of messages, and gave {reply!r:.200}")
        except (AgentError, LimitReached) as error:
            return self._failure(child, error)
        except (DuplicateKey, MisplacedEffect, KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as error:
            if child.stopping or self._context.cancelled_from_outside():
                raise
            return self._failure(child, AgentError(f"was cancelled from inside ({type(error).__name__})"))
        except BaseException as error:  # whatever a member does wrong becomes a recorded failure
            if error is child.run.error:
                raise
            return self._failure(child, error)
        try:
            return self._clean(reply, child)
        except AgentError as error:
            return self._failure(child, error)

    def _clean(self, reply: Reply, child: RunContext) -> Reply:
        """The reply with what its turn has used, without secrets, and under the name of who was asked."""
        changes: dict[str, object] = {}
        if reply.usage is not child.usage:
            changes["usage"] = child.usage
        redactor = child.run.redactor
        known = child.run.recorder.knows(reply.messages)
        if self._alone and (not known or reply.data is not None):
            reply = reply_within_cap(reply, self._member)
        if reply.data is not None:
            changes["data"] = redactor.value(reply.data, child.run.recorder.texts)
        if reply.warnings:
            changes["warnings"] = tuple(map(redactor.text, reply.warnings))
        if reply.handoff is not None:
            changes["handoff"] = handover_from(cast("Mapping[str, object]", redactor.value(reply.handoff.to_json())))
        if not known:  # what came from an effect is known, and clean
            changes["messages"] = tuple(one.changed(content=redactor.text(one.content)) for one in reply.messages)
        reply = reply.changed(**changes) if changes else reply
        if self.turn.handoff is not None:
            reply = handed_over(reply, self.turn)
        return self._signed(reply)

    def _signed(self, reply: Reply) -> Reply:
        """The reply under the name of who was asked, whatever it claims; the whole run's messages keep their own."""
        name = self._member.name
        if not self._alone and not self._context.path:
            return reply
        for one in reply.messages:
            if one.name != name or one.role != "assistant":
                return reply.changed(messages=_signed_by(name, reply.messages))
        return reply

    def _failure(self, child: RunContext, error: BaseException | None) -> Failure:
        partial = error.messages if isinstance(error, MemberFailed) else None
        said = self._as_said_by_member(child.said if partial is None else cast("tuple[Message, ...]", partial))
        match error:
            case None:
                kind, message = "cancelled", "stopped by others"
            case LimitReached():
                kind, message = "budget", str(error)
            case AgentError():
                kind, message = error.kind, str(error)
            case _:
                kind, message = "crash", error_text(error)
        message = cut(child.run.redactor.text(message), LONGEST_ERROR)
        data = cast("JsonValue", error.data) if isinstance(error, MemberFailed) else None
        data = None if data is None else child.run.redactor.value(data, child.run.recorder.texts)
        member = self._member.name
        if isinstance(error, MemberFailed) and error.member and child.run.format > 1:
            member = join_key(member, error.member)
        warnings = tuple(map(child.run.redactor.text, error.warnings)) if isinstance(error, MemberFailed) else ()
        return Failure(member=member, error=kind, message=message, messages=said, data=data, warnings=warnings)

    def _as_said_by_member(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """What a nested team says appears under the team's name; the whole run's messages keep their own."""
        if self._alone or not self._context.path:
            return tuple(messages)
        return _signed_by(self._member.name, messages)

    def _record(self, place: str, ending: Reply | Failure, child: RunContext) -> Ended:
        run = child.run
        if run.closing:
            return ending, None
        if isinstance(ending, Reply) and ending.context_updates:
            refused = child.workspace.merge(ending.context_updates)
            ending = ending.changed(context_updates={}, warnings=(*ending.warnings, *refused))
        event = run.recorder.add(self._context.path, place, self._fact(ending, child))
        return ending, event

    def _fact(self, ending: Reply | Failure, child: RunContext) -> AgentReplied | AgentFailed:
        recorder = child.run.recorder
        if isinstance(ending, Failure):
            return AgentFailed(
                member=self._member.name,
                error=ending.error,
                message=ending.message,
                usage=child.usage,
                messages=recorder.keep_messages(ending.messages),
                data=None if ending.data is None else recorder.keep(ending.data),
                tally=child.tally(),
                path="" if ending.member == self._member.name else ending.member,
                warnings=ending.warnings,
            )
        return AgentReplied(
            messages=recorder.keep_messages(ending.messages),
            data=None if ending.data is None else recorder.keep(ending.data),
            usage=ending.usage,
            signal=ending.signal,
            stop_reason=ending.stop_reason,
            truncated=ending.truncated,
            warnings=ending.warnings,
            artifacts=ending.artifacts,
            tally=child.tally(),
            handoff=ending.handoff,
        )

    def _hear(self, full: str, ending: Reply | Failure, event: Event | None) -> Reply | Failure:
        """The ending has reached whoever asked."""
        run = self._context.run
        if event is not None:
            run.arrived(event)
            run.heard[full] = (event.number, ending)
        self._say(ending)
        return ending

    def _say(self, ending: Reply | Failure) -> None:
        """What was said counts as the scope's partial result from the moment it is heard."""
        if self.turn.purpose == "work":
            self._context.said += ending.messages

    async def _until_stopped(self, recorded: RecordedAsk) -> None:
        """Replay of an ask that was cut short: it waits for the same decision to stop it again."""
        assert recorded.ending is not None
        context, run = self._context, self._context.run
        run.turnstile.park(context.lane)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            run.turnstile.unpark(context.lane)
            if self.turn.purpose == "work":
                context.said.extend(run.past.bodies.messages(recorded.ending.messages))
            context.spend(recorded.ending.usage)


def _signed_by(name: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(message.changed(name=name, role="assistant") for message in messages)
