"""`share: a2a_lite`: a strategy hears envelopes in place of replies, so envelopes are all that it can pass on.

This is the one place where it is done, around the context of a team and for whatever strategy it has. What members
said in full goes to the workspace and into the team's result, and to a strategy only as `reply.full`, for decisions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

from msgspec import structs
from pydantic import JsonValue

from teamwright.agents.approval import REJECTED, Draft
from teamwright.agents.context import AgentLike, Branch, Branches, Clock, Context, Workspace
from teamwright.agents.contract import policy_of as agent_policy
from teamwright.agents.effect import Effect, Returned
from teamwright.agents.handoff import bounded
from teamwright.planning.topology.profiles import BUDGETS
from teamwright.strategies.contract import lead_of
from teamwright.strategies.envelopes.escalation import RISKY, Escalation
from teamwright.strategies.parallel.parts import WORK
from teamwright.strategies.protocol import Members, Strategy, Task
from teamwright.values.events.event import Fact
from teamwright.values.limits.degradation import Posture
from teamwright.values.limits.limits import Limits
from teamwright.values.limits.usage import CHARACTERS_PER_TOKEN
from teamwright.values.owned_paths import Owned
from teamwright.values.people.questions import Answer, Question
from teamwright.values.results import Outcome
from teamwright.values.text.display import cut
from teamwright.values.turns.envelope import Envelope, EnvelopeLimits, EnvelopeMessage, EnvelopeSettings, HandoffNote
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.transcript import header_name
from teamwright.values.turns.turn import Failure, Reply, Turn

T = TypeVar("T")

USUAL = EnvelopeSettings.model_construct()
TEAM = "team"
"""Whom envelopes are for in a team without a lead."""


def policy_of(handoff: EnvelopeSettings | None, scale: float = 1.0) -> EnvelopeLimits:
    """How long envelopes may be: a summary keeps to the policy's characters and to the tokens of the budget profile.

    `scale` cuts that back, though not below the shortest summary that says enough.
    """
    given = handoff or USUAL
    most = min(given.max_summary_chars, CHARACTERS_PER_TOKEN * BUDGETS[given.budget].summary_cap)
    most = max(min(given.min_summary_chars, most), int(most * scale), 1)
    return EnvelopeLimits(
        min_summary_chars=min(given.min_summary_chars, most),
        max_summary_chars=most,
        max_artifacts=given.max_artifacts,
        max_needs=given.max_needs,
    )


def briefly(value: JsonValue, most: int) -> JsonValue:
    """The same data, with every text in it cut to so many characters."""
    match value:
        case str():
            return cut(value, most)
        case list():
            return [briefly(one, most) for one in value]
        case dict():
            return {key: briefly(one, most) for key, one in value.items()}
        case _:
            return value


async def run_handing_over(
    strategy: Strategy, task: Task, members: Members, ctx: Context, *, above: bool
) -> tuple[Outcome, HandoffNote | None]:
    """Let a strategy bring a task to its outcome by envelopes: the outcome in full, and what the team hands over.

    `above` says that this team is a member of one that shares envelopes too.
    """
    desk = Desk(strategy, task, members, ctx, above=above)
    around = HandoffContext(ctx, desk)
    history = await desk.opened(task.history, ctx)
    outcome = await strategy.run(replace(task, history=history), members, around)
    handover = desk.handed_up(outcome) if above else None
    warnings = (*outcome.warnings, *desk.warnings)
    return outcome.changed(messages=tuple(in_full(outcome.messages)), warnings=warnings), handover


def in_full(messages: Iterable[Message]) -> Iterable[Message]:
    """What was said, where envelopes stand for it."""
    for message in messages:
        if isinstance(message, EnvelopeMessage):
            yield from message.whole
        else:
            yield message


class Desk:
    """Makes envelopes of what one team says, and keeps what is too long for them."""

    def __init__(self, strategy: Strategy, task: Task, members: Members, ctx: Context, *, above: bool) -> None:
        self._handoff, self._ctx, self._quotes = task.settings.handoff, ctx, task.quotes
        lead = lead_of(strategy, task.settings, members)
        self._recipient = lead or TEAM
        leader = members.named(lead) if lead else None
        self._escalation = Escalation((self._handoff or USUAL).escalate, leader, task.text, above=above)

    @property
    def warnings(self) -> list[str]:
        """What leads warned of in their rulings."""
        return self._escalation.warnings

    @property
    def policy(self) -> EnvelopeLimits:
        """How long envelopes may be now."""
        return policy_of(self._handoff, self._ctx.posture.summary)

    async def opened(self, history: History, ctx: Context) -> History:
        """What the caller brought, with envelopes in place of what members of other teams and runs said."""
        told: list[Message] = []
        for number, message in enumerate(history, start=1):
            if message.role == "user" or isinstance(message, EnvelopeMessage):
                told.append(message)
                continue
            handover = bounded(None, message.content, self.policy)
            pointers = await self._kept(message.content, handover, message.name, ctx, f"history/{number}")
            envelope = self._envelope(header_name(message.name), f"history-{number}", handover, pointers, ctx)
            told.append(EnvelopeMessage.of(envelope, message.name, (message,), quote=self._quotes))
        return History.of(told) if history else history

    async def taken(self, draft: Draft, task_id: str, ctx: Context, key: str) -> Reply | Failure:
        """What the strategy hears of a reply; a failure, where it was too risky and somebody said no."""
        reply, member = draft.reply, draft.member
        if not reply.messages:
            return reply
        told = await self._sealed(reply, member, task_id, ctx, f"{key}/whole")
        ruling = await self._escalation.ruling(told, draft, ctx, key)
        if ruling is None:
            return self._shown(reply, told)
        if not ruling.passed:
            text = f"Its reply was too risky to go on with: {ruling.note}"
            optional = agent_policy(member).optional
            return Failure(member=member.name, error=REJECTED, message=text, optional=optional)
        if ruling.edited is not None:
            reply = ruling.edited
            told = await self._sealed(reply, member, task_id, ctx, f"{key}/edited")
        elif ruling.note:
            envelope = told.envelope.model_copy(update={"next_action": self.policy.cut(ruling.note)})
            told = EnvelopeMessage.of(envelope, told.name, told.whole, quote=self._quotes)
        return self._shown(reply, told)

    def handed_up(self, outcome: Outcome) -> HandoffNote | None:
        """What the whole team hands over: the envelope of its answer, with the highest risk that nobody ruled on."""
        unruled = self._escalation.unruled
        last = outcome.messages[-1] if outcome.messages else None
        if not isinstance(last, EnvelopeMessage):
            return HandoffNote(risk_level=unruled)
        envelope = last.envelope
        risk = "medium" if envelope.risk_level in RISKY else envelope.risk_level
        return HandoffNote(
            summary=envelope.summary,
            status=envelope.status,
            confidence=envelope.confidence,
            risk_level=unruled if unruled in RISKY else risk,
            artifacts=envelope.artifacts,
            needs=envelope.needs,
            next_action=envelope.next_action,
        )

    def _shown(self, reply: Reply, told: EnvelopeMessage) -> Reply:
        data = briefly(reply.data, self.policy.max_summary_chars)
        return reply.changed(messages=(told,), data=data, whole=reply)

    async def _sealed(self, reply: Reply, member: AgentLike, task_id: str, ctx: Context, key: str) -> EnvelopeMessage:
        handover = reply.handoff or bounded(None, reply.text, self.policy)
        pointers = await self._kept(reply.text, handover, f"{member.name} at {task_id}", ctx, key)
        pointers += tuple(artifact.pointer for artifact in reply.artifacts)
        envelope = self._envelope(member.name, task_id, handover, pointers, ctx)
        return EnvelopeMessage.of(envelope, reply.messages[-1].name, reply.messages, quote=self._quotes)

    @staticmethod
    async def _kept(text: str, handover: HandoffNote, name: str, ctx: Context, key: str) -> tuple[str, ...]:
        """A pointer to the text, unless its summary holds all of it."""
        if text in handover.summary:
            return ()
        return ((await ctx.workspace.keep(text, name=name, key=key)).pointer,)

    def _envelope(
        self, sender: str, task_id: str, handover: HandoffNote, pointers: tuple[str, ...], ctx: Context
    ) -> Envelope:
        envelope = Envelope(
            run_id=ctx.workspace.run_id,
            task_id=task_id,
            sender=sender,
            recipient=self._recipient if sender != self._recipient else TEAM,
            status=handover.status,
            confidence=handover.confidence,
            risk_level=handover.risk_level,
            summary=handover.summary,
            artifacts=tuple(dict.fromkeys((*pointers, *handover.artifacts))),
            needs=handover.needs,
            next_action=handover.next_action,
        )
        return self.policy.compact(envelope)


class HandoffContext:
    """The context of a team that shares envelopes, and of its scopes and branches; `place` is their path."""

    def __init__(self, inner: Context, desk: Desk, place: str = "") -> None:
        self._inner, self._desk, self._place = inner, desk, place

    @property
    def clock(self) -> Clock:
        """Time and chance."""
        return self._inner.clock

    @property
    def workspace(self) -> Workspace:
        """What the run shares."""
        return self._inner.workspace

    @property
    def posture(self) -> Posture:
        """How freely the team may work now."""
        return self._inner.posture

    @property
    def owned(self) -> Owned:
        """What the steps around this one own."""
        return self._inner.owned

    async def ask(self, member: AgentLike, turn: Turn, *, key: str) -> Reply | Failure:
        """Let a member take its turn; of work, what comes back is the envelope. Who coordinates is heard in full.

        Where a turn asks for a handoff, its reply is to be told on, so that comes back as an envelope too.
        """
        if turn.purpose != "work" and turn.handoff is None:
            return await self._inner.ask(member, turn, key=key)
        reply = await self._inner.ask(member, structs.replace(turn, handoff=self._desk.policy), key=key)
        if isinstance(reply, Failure):
            return reply
        draft = Draft(reply, member, turn.output_schema)
        return await self._desk.taken(draft, self._task_id(key), self._inner, key)

    def _task_id(self, key: str) -> str:
        if not self._place:
            return key
        return self._place if key == WORK else f"{self._place}/{key}"

    async def effect(self, key: str, effect: Effect) -> Returned:
        """Touch the world once."""
        return await self._inner.effect(key, effect)

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        """Ask a person."""
        return await self._inner.ask_person(question, key=key)

    @asynccontextmanager
    async def scope(
        self, name: str, limits: Limits | None = None, owns: Collection[str] | None = None, priority: int = 0
    ) -> AsyncGenerator[Context]:
        """A named part of the work."""
        async with self._inner.scope(name, limits, owns, priority) as inner:
            yield HandoffContext(inner, self._desk, self._place or name)

    @asynccontextmanager
    async def branches(self, limit: int, *, until: Callable[[], bool] | None = None) -> AsyncGenerator[Branches]:
        """Run branches side by side."""
        async with self._inner.branches(limit, until=until) as inner:
            yield HandoffBranches(inner, self)

    async def emit(self, fact: Fact) -> None:
        """Record something worth knowing."""
        await self._inner.emit(fact)

    def within(self, inner: Context, name: str) -> HandoffContext:
        """The context of a branch of this name."""
        return HandoffContext(inner, self._desk, f"{self._place}/{name}" if self._place else name)


class HandoffBranches:
    """Branches whose contexts share envelopes too."""

    def __init__(self, inner: Branches, around: HandoffContext) -> None:
        self._inner, self._around = inner, around

    def start(self, name: str, work: Callable[[Context], Awaitable[T]]) -> Branch[T]:
        """Start a branch."""
        return self._inner.start(name, lambda ctx: work(self._around.within(ctx, name)))

    def finished(self) -> AsyncIterator[Branch[object]]:
        """Branches as they finish."""
        return self._inner.finished()

    def cancel(self) -> None:
        """Stop every branch that has not finished."""
        self._inner.cancel()
