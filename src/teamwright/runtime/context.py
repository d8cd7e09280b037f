"""The one door: asks, effects, people, scopes and branches, recorded on the way in and on the way out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar, cast

import anyio

from teamwright.agents.protocol import Agent, Branches, Clock, Context, Effect, Returned
from teamwright.budget.ledger import Account
from teamwright.errors import (
    AgentError,
    AgentTimeout,
    DuplicateKey,
    JournalError,
    LimitReached,
    MemberFailed,
    MisplacedEffect,
    RunError,
)
from teamwright.runtime.branches import RunBranches
from teamwright.runtime.calls import Calls, being_cancelled
from teamwright.runtime.clock import ScopeClock
from teamwright.runtime.deadline import Deadline
from teamwright.runtime.replay import RecordedAsk
from teamwright.runtime.state import RunState
from teamwright.runtime.turnstile import Lane
from teamwright.values.events import (
    AgentAsked,
    AgentFailed,
    AgentReplied,
    Custom,
    Fact,
    PersonAnswered,
    PersonAsked,
    Tally,
    TimerFired,
    TimerSet,
)
from teamwright.values.limits import Limits
from teamwright.values.messages import Message
from teamwright.values.names import escape_place, join_key, with_attempt
from teamwright.values.people import Answer, Question
from teamwright.values.turns import Failure, Reply, Turn
from teamwright.values.usage import NOTHING, Usage

T = TypeVar("T")

ONE_CALL = Tally(calls=1)


class RunContext:
    """The context of one scope: a team's, an agent's, a named part's or a branch's."""

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
    ) -> None:
        self.run, self.path, self.lane = run, path, lane
        self.member, self.agent_scope, self.account = member, agent_scope, account
        self.usage: Usage = NOTHING
        self.said: list[Message] = []
        self.stopping = False
        self._parent = parent
        self._claimed: set[str] = set()
        self._emitted = 0
        self._clock: ScopeClock | None = None

    @property
    def clock(self) -> Clock:
        """Time and chance of this scope."""
        if self._clock is None:
            self._clock = ScopeClock(self.run.seed, self.path, lambda: self.run.now, self._sleep)
        return self._clock

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure:
        """Let a member take its turn. Recorded already, it is handed back and nobody is called."""
        if self.run.closing:
            await self.run.left()
        digest = turn.digest
        place, recorded = self._match_ask(self.claim(key), member, turn, digest)
        full = join_key(self.path, place)
        if recorded is None:
            self.run.recorder.add(self.path, place, self._asked(member, turn, digest))
        elif recorded.stopped:
            await self._until_stopped(recorded)
        elif recorded.ending is not None:
            await self.run.turnstile.arrive(self.lane, full, self.agent_scope)
            self.run.now = self.run.past.times[full]
            self.spend(recorded.ending.usage)
            return self._hear(turn, self.run.past.reply(recorded, self.run.recorder.know))
        child = self._child(full, member, composite=member.kind == "team")
        inside = bool(self.agent_scope)  # then the agent that asks is waiting, and only the one asked is at work
        self.run.agents_at_work -= inside
        try:
            ending = await self._take_turn(member, turn, child, place, recorded)
        finally:
            self.run.agents_at_work += inside
        self.run.turnstile.announce(full)
        await self.run.turnstile.arrive(self.lane, full, self.agent_scope)
        return self._hear(turn, ending)

    async def effect(self, key: str, effect: Effect) -> Returned:
        """Touch the world once."""
        if self.run.closing:
            await self.run.left()
        place = self.claim(key)
        if not self.agent_scope:
            raise MisplacedEffect(join_key(self.path, key))
        return await Calls(self, place, effect).outcome()

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        """Ask a person; the process may end while nobody has answered."""
        if self.run.closing:
            await self.run.left()
        place = self.claim(key)
        full = join_key(self.path, place)
        if full in self.run.past.answers:
            await self.run.turnstile.arrive(self.lane, full, self.agent_scope)
            self.run.now = self.run.past.times[full]
            return self.run.past.answers[full]
        if not self._noted("person.asked", place):
            asked = question.changed(text=self.run.redactor.text(question.text))
            self.run.recorder.add(self.path, place, PersonAsked(question=asked))
        answer = await self._answer_to(full)
        event = self.run.recorder.add(self.path, place, PersonAnswered(answer=answer))
        self.run.turnstile.announce(full)
        await self.run.turnstile.arrive(self.lane, full, self.agent_scope)
        self.run.now = event.time
        return answer

    @asynccontextmanager
    async def scope(self, name: str, limits: Limits | None = None) -> AsyncGenerator[Context]:
        """A named part of the work, with limits of its own."""
        child = self._child(join_key(self.path, self.claim(name)), None, composite=True)
        child.account, child.said = self.run.account(child.path, limits, self.account), self.said
        if limits is None or limits.seconds is None:
            yield child
            return
        with Deadline(child, limits.seconds, since=self.run.now) as deadline:
            yield child
        if deadline.expired:
            await self.run.turnstile.rejoin(self.lane)
            raise AgentTimeout(f"{name!r} used up its {limits.seconds:g} seconds")

    def branches(self, limit: int) -> AbstractAsyncContextManager[Branches]:
        """Run branches side by side, at most `limit` at once."""
        return RunBranches(self, limit)

    async def emit(self, fact: Fact) -> None:
        """Record something worth knowing, once."""
        if self.run.closing:
            return
        self._emitted += 1
        place = f"event-{self._emitted}"
        if not self._noted(fact.kind, place):
            if isinstance(fact, Custom):
                fact = Custom(domain=fact.domain, name=fact.name, data=self.run.redactor.value(fact.data))
            self.run.recorder.add(self.path, place, fact)

    def branch(self, name: str, lane: Lane) -> RunContext:
        """The context of a branch of this scope."""
        full = join_key(self.path, self.claim(name))
        context = RunContext(
            self.run, full, lane, self, member=self.member, agent_scope=self.agent_scope, account=self.account
        )
        context.said = self.said
        return context

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
            context = context._parent

    def tally(self) -> Tally | None:
        """What the effects of this agent's turn came to; a team has none of its own."""
        spending = self.run.tallies.pop(self.path, None)
        if spending is None:
            return None
        charged = None if spending.tokens == self.usage.total_tokens else spending.tokens
        if charged is None and spending.calls == 1 and not spending.marks:
            return ONE_CALL
        return Tally(calls=spending.calls, charged=charged, marks=tuple(spending.marks))

    def _child(self, path: str, member: Agent | None, *, composite: bool) -> RunContext:
        limits: Limits | None = getattr(member, "limits", None)
        return RunContext(
            self.run,
            path,
            self.lane,
            self,
            member=member.name if member else self.member,
            agent_scope=self.agent_scope if composite else path,
            account=self.run.account(path, limits, self.account),
        )

    def _match_ask(self, key: str, member: Agent, turn: Turn, digest: str) -> tuple[str, RecordedAsk | None]:
        """Find the ask in the record. On a fork, one that was told something else is asked anew, as `#2`."""
        attempt = 1
        while recorded := self.run.past.asks.get(join_key(self.path, with_attempt(key, attempt))):
            if recorded.asked.member == member.name and recorded.asked.digest == digest:
                return with_attempt(key, attempt), recorded
            self.run.disagree(
                join_key(self.path, key),
                f"that {recorded.asked.member!r} was asked at {join_key(self.path, key)!r} with the turn"
                f" {recorded.asked.digest[:8]}, after {recorded.asked.length} messages",
                f"asks {member.name!r} there with the turn {digest[:8]}, after {len(turn.history)} messages",
            )
            self.run.past.give_way(join_key(self.path, with_attempt(key, attempt)))
            attempt += 1
        return with_attempt(key, attempt), None

    def _asked(self, member: Agent, turn: Turn, digest: str) -> AgentAsked:
        return AgentAsked(
            member=member.name,
            member_kind=member.kind,
            turn=turn.number,
            task=self.run.recorder.keep(turn.task),
            length=len(turn.history),
            digest=digest,
            purpose=turn.purpose,
        )

    async def _take_turn(
        self, member: Agent, turn: Turn, child: RunContext, place: str, recorded: RecordedAsk | None
    ) -> Reply | Failure:
        """Let the member answer and record the ending: exactly one, whatever happens."""
        run, alone = self.run, member.kind != "team"
        if alone:
            run.agents_at_work += 1
            run.turnstile.enter_agent(self.lane, child.path)
        try:
            limits: Limits | None = getattr(member, "limits", None)
            if limits is None or limits.seconds is None:
                ending = await self._respond(member, turn, child)
            else:
                ending = await self._in_time(member, turn, child, recorded, limits.seconds)
        except asyncio.CancelledError:
            if self._being_stopped():
                self._hear(turn, self._record(place, self._failure(member, child, None), child))
            raise
        finally:
            if alone:
                run.agents_at_work -= 1
                run.turnstile.leave_agent(child.path)
        return self._record(place, ending, child)

    async def _in_time(
        self, member: Agent, turn: Turn, child: RunContext, recorded: RecordedAsk | None, seconds: float
    ) -> Reply | Failure:
        """The member's answer, or the failure that it took too long."""
        with Deadline(child, seconds, recorded.time if recorded else None):
            return await self._respond(member, turn, child)
        # Here only if the deadline swallowed the cancellation, that is, when the time was used up.
        await self.run.turnstile.rejoin(self.lane)
        text = f"{member.name!r} used up its {seconds:g} seconds"
        return self._failure(member, child, MemberFailed("deadline" if member.kind == "team" else "timeout", text))

    async def _respond(self, member: Agent, turn: Turn, child: RunContext) -> Reply | Failure:
        try:
            reply = await member.respond(turn, child)
        except (AgentError, LimitReached) as error:
            return self._failure(member, child, error)
        except (RunError, JournalError) as error:
            if error is self.run.error or isinstance(error, DuplicateKey | MisplacedEffect | JournalError):
                raise
            return self._failure(member, child, error)
        except asyncio.CancelledError as error:
            if being_cancelled():
                raise
            return self._failure(member, child, AgentError(f"was cancelled from inside ({type(error).__name__})"))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a member does wrong becomes a recorded failure
            return self._failure(member, child, error)
        changes: dict[str, object] = {}
        if reply.usage is not child.usage:
            changes["usage"] = child.usage
        if reply.data is not None or reply.warnings or not self.run.recorder.knows(reply.messages):
            changes |= self._without_secrets(reply)
        reply = reply.changed(**changes) if changes else reply
        if member.kind != "team" or not self.path:
            return reply
        return reply.changed(messages=self._as_said_by(member, reply.messages))

    def _without_secrets(self, reply: Reply) -> dict[str, object]:
        """What to change in a reply that did not come from an effect, whose values are clean."""
        redactor = self.run.redactor
        return {
            "messages": tuple(
                Message(name=one.name, content=redactor.text(one.content), role=one.role) for one in reply.messages
            ),
            "data": redactor.value(reply.data),
            "warnings": tuple(map(redactor.text, reply.warnings)),
        }

    def _being_stopped(self) -> bool:
        """Whether a recorded decision stops this scope, as opposed to the process being interrupted."""
        context: RunContext | None = self
        while context is not None and not context.stopping:
            context = context._parent
        return context is not None or self.run.cancelled

    def _failure(self, member: Agent, child: RunContext, error: BaseException | None) -> Failure:
        partial = error.messages if isinstance(error, MemberFailed) else None
        said = self._as_said_by(member, child.said if partial is None else cast("tuple[Message, ...]", partial))
        match error:
            case None:
                return Failure(member=member.name, error="cancelled", message="stopped by others", messages=said)
            case LimitReached():
                return Failure(member=member.name, error="budget", message=str(error), messages=said)
            case AgentError():
                message = self.run.redactor.text(str(error))
                return Failure(member=member.name, error=error.kind, message=message, messages=said)
            case _:
                message = self.run.redactor.text(f"{type(error).__name__}: {error}")
                return Failure(member=member.name, error="crash", message=message, messages=said)

    def _as_said_by(self, member: Agent, messages: Sequence[Message]) -> tuple[Message, ...]:
        """What a nested team says appears under the team's name; the whole run's messages keep their own."""
        if member.kind != "team" or not self.path:
            return tuple(messages)
        return tuple(Message(name=member.name, content=message.content, role=message.role) for message in messages)

    def _record(self, place: str, ending: Reply | Failure, child: RunContext) -> Reply | Failure:
        recorder = self.run.recorder
        if self.run.closing:
            return ending
        if isinstance(ending, Failure):
            refs = recorder.keep_messages(ending.messages)
            fact = AgentFailed(
                member=ending.member,
                error=ending.error,
                message=ending.message,
                usage=child.usage,
                messages=refs,
                tally=child.tally(),
            )
        else:
            fact = self._replied(ending, child)
        self.run.now = recorder.add(self.path, place, fact).time
        return ending

    def _replied(self, reply: Reply, child: RunContext) -> AgentReplied:
        messages, tally = self.run.recorder.keep_messages(reply.messages), child.tally()
        if reply.data is None and not (reply.signal or reply.stop_reason or reply.truncated or reply.warnings):
            return AgentReplied(messages=messages, usage=reply.usage, tally=tally)
        return AgentReplied(
            messages=messages,
            data=None if reply.data is None else self.run.recorder.keep(reply.data),
            usage=reply.usage,
            signal=reply.signal,
            stop_reason=reply.stop_reason,
            truncated=reply.truncated,
            warnings=reply.warnings,
            tally=tally,
        )

    def _hear(self, turn: Turn, ending: Reply | Failure) -> Reply | Failure:
        """What was said counts as the scope's partial result from the moment it is heard."""
        if turn.purpose == "work":
            self.said.extend(ending.messages)
        return ending

    async def _until_stopped(self, recorded: RecordedAsk) -> None:
        """Replay of an ask that was cut short: it waits for the same decision to stop it again."""
        assert recorded.ending is not None
        self.run.turnstile.park(self.lane)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.run.turnstile.unpark(self.lane)
            self.said.extend(self.run.past.messages(recorded.ending.messages))
            self.spend(recorded.ending.usage)

    async def _answer_to(self, key: str) -> Answer:
        run = self.run
        if self.agent_scope:
            await run.turnstile.caught_up(self.lane, self.agent_scope)
        if key in run.answers:
            return run.answers[key]
        run.questions[key] = asyncio.get_running_loop().create_future()
        run.turnstile.people_asked += 1
        if self.agent_scope:
            run.agents_at_work -= 1
        run.turnstile.park(self.lane)
        try:
            return await run.questions[key]
        finally:
            run.questions.pop(key, None)
            run.turnstile.people_asked -= 1
            if self.agent_scope:
                run.agents_at_work += 1

    async def _sleep(self, name: str, seconds: float) -> None:
        if self.run.closing:
            await self.run.left()
        place = self.claim(name)
        full = join_key(self.path, place)
        past = self.run.past
        if full in past.fired:
            await self.run.turnstile.arrive(self.lane, full, self.agent_scope)
            self.run.now = past.times[full]
            return
        if full not in past.timers:
            self.run.recorder.add(self.path, place, TimerSet(seconds=seconds))
        left = past.timers.get(full, self.run.wall() + seconds) - self.run.wall()
        await self._wait_outside(left)
        event = self.run.recorder.add(self.path, place, TimerFired())
        self.run.turnstile.announce(full)
        await self.run.turnstile.arrive(self.lane, full, self.agent_scope)
        self.run.now = event.time

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

    def _noted(self, kind: str, place: str) -> bool:
        return (kind, self.path, place) in self.run.past.noted
