"""Implements `share: a2a_lite`: a strategy gets envelopes in place of replies, so it can forward nothing else.

This wraps the context of a team, whatever its strategy. Full replies go to the workspace and into the result of the
team; a strategy reaches them only as `reply.full`, for decisions.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Annotated, Generic, Literal, NamedTuple, TypeVar, get_args

from msgspec import structs
from pydantic import BaseModel, BeforeValidator, ConfigDict, JsonValue, TypeAdapter

from teamwright.agents.agent import (
    Agent,
    AppliedChange,
    ApplyChange,
    Branch,
    Branches,
    CheckChange,
    Clock,
    Context,
    MemberTree,
    Workspace,
)
from teamwright.agents.effect import Effect, Returned
from teamwright.agents.prompt_notices import bounded_note
from teamwright.agents.review import REJECTED, Draft, ask_for_decision
from teamwright.strategies.part_results import WORK
from teamwright.strategies.protocol import Members, Strategy, Task, run_strategy
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.events.event import Fact
from teamwright.values.events.team import TeamEscalated
from teamwright.values.limits import CHARACTERS_PER_TOKEN, ClosingAsk, Cutback, Limits
from teamwright.values.owned_paths import Owned
from teamwright.values.people import Answer, Question, approval_question
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import (
    LEAST_SUMMARY,
    SUMMARY_CAPS,
    Envelope,
    EnvelopeLimits,
    EnvelopeMessage,
    EnvelopeNote,
    EnvelopeSettings,
    Escalate,
    History,
    Message,
    RiskLevel,
    digest,
    header_name,
)
from teamwright.values.turns.results import Outcome
from teamwright.values.turns.turn import Failure, Reply, Turn

D = TypeVar("D", bound=str)


def _normalize(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


class Ruling(BaseModel, Generic[D]):
    """A decision, in any case, and a note about it."""

    model_config = ConfigDict(extra="ignore")

    decision: Annotated[D, BeforeValidator(_normalize)]
    note: str = ""


def ruling_schema(decisions: Sequence[str], note: str) -> JsonSchema:
    """Return the JSON Schema of a ruling; `note` describes the note."""
    return {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "enum": list(decisions)},
            "note": {"type": "string", "description": note},
        },
        "required": ["decision"],
    }


RISKY: frozenset[RiskLevel] = frozenset(("high", "critical"))
LEVELS: tuple[RiskLevel, ...] = get_args(RiskLevel)

ASK = """\
{member!r} reports {risk} risk with the result above. Nobody else has heard of it, and the team goes on with it only \
if you let it pass. Answer with one JSON object: \
{{"decision": "approve" or "reject", "note": "what is to be done about it"}}

The task of the team:
{task}"""

Decision = Literal["approve", "reject"]
RULING_SCHEMA = ruling_schema(get_args(Decision), "what is to be done about it")


class RiskRuling(NamedTuple):
    """The ruling on a risky reply, with a note, and the reply as edited by a person."""

    passed: bool
    note: str = ""
    edited: Reply | None = None


class Escalation:
    """Decides who rules on the risks of one team. In a nested team, risks without a ruling go to the outer team."""

    def __init__(self, how: Escalate, lead: Agent | None, task: Task, *, nested: bool) -> None:
        self._how, self._lead, self._task, self._nested = how, lead, task, nested
        self.unruled: RiskLevel = "low"
        """The highest risk that continued without a ruling."""
        self.warnings: list[str] = []
        """Warnings of leads that ruled."""

    async def rule_on(self, message: EnvelopeMessage, draft: Draft, ctx: Context, key: str) -> RiskRuling | None:
        """Return the ruling on a reply that others see as this message; None if it needs none."""
        risk, member = message.envelope.risk_level, draft.member
        if risk not in RISKY:
            return None
        lead = self._lead if self._how == "lead" and self._lead is not member else None
        if self._how == "off" or (self._how == "lead" and lead is None and self._nested):
            self.unruled = max((self.unruled, risk), key=LEVELS.index)
            return None
        fact = TeamEscalated(member=member.name, task_id=message.envelope.task_id, risk_level=risk)
        if lead is not None:
            await ctx.emit(fact.changed(to=lead.name))
            ruling = await self._ask_lead(lead, message, member, ctx, key)
            if isinstance(ruling, RiskRuling):
                return ruling
            fact = fact.changed(reason=ruling.problem)
        await ctx.emit(fact)
        return await _ask_person(message, draft, ctx, key)

    async def _ask_lead(
        self, lead: Agent, message: EnvelopeMessage, member: Agent, ctx: Context, key: str
    ) -> RiskRuling | ParseFailure:
        """Ask the lead for a ruling. A failed or ambiguous reply is a `ParseFailure`."""
        text = ASK.format(member=member.name, risk=message.envelope.risk_level, task=self._task.text)
        turn = Turn(
            text,
            History.of((message,)),
            purpose="coordinate",
            output_schema=RULING_SCHEMA,
            attachments=self._task.attachments,
        )
        reply = await ctx.ask(lead, turn, key=f"escalated/{key}")
        if isinstance(reply, Failure):
            return ParseFailure(f"{lead.name!r} failed ({reply.error})")
        self.warnings += reply.lasting_warnings
        found = read_answer(reply, _ruling_adapter())
        if isinstance(found, ParseFailure):
            return ParseFailure(f"the answer of {lead.name!r} is no ruling: {found.problem}")
        passed = found.decision == "approve"
        if found.note:
            return RiskRuling(passed, f"{lead.name}: {found.note}")
        return RiskRuling(passed, "" if passed else f"{lead.name} said no")


async def _ask_person(message: EnvelopeMessage, draft: Draft, ctx: Context, key: str) -> RiskRuling:
    async def ask(question: Question, place: str) -> Answer:
        return await ctx.ask_person(question, key=place)

    envelope, text = message.envelope, draft.reply.text
    words = f"{envelope.sender!r} reports {envelope.risk_level} risk. May its reply stand?"
    question = approval_question(words, text, about=digest(envelope.task_id, text))
    decision = await ask_for_decision(ask, question, f"{key}/confirm-risk", draft.edited)
    return RiskRuling(decision.approved, decision.reason, decision.edited)


@cache
def _ruling_adapter() -> TypeAdapter[Ruling[Decision]]:
    return TypeAdapter(Ruling[Decision])


T = TypeVar("T")

DEFAULT_SETTINGS = EnvelopeSettings.model_construct()
TEAM = "team"
"""The recipient of envelopes in a team without a lead."""


def limits_of(settings: EnvelopeSettings | None, scale: float = 1.0) -> EnvelopeLimits:
    """Return the limits of envelopes: a summary fits both the limit in characters and the tokens of the budget profile.

    `scale` reduces that during degradation, but not below the minimum length of a summary.
    """
    given = settings or DEFAULT_SETTINGS
    most = min(given.length, CHARACTERS_PER_TOKEN * SUMMARY_CAPS[given.budget])
    return EnvelopeLimits(max_summary_chars=max(LEAST_SUMMARY, int(most * scale)))


def shorten_texts(value: JsonValue, most: int) -> JsonValue:
    """Return the data with every text in it cut to `most` characters."""
    match value:
        case str():
            return cut(value, most)
        case list():
            return [shorten_texts(one, most) for one in value]
        case dict():
            return {key: shorten_texts(one, most) for key, one in value.items()}
        case _:
            return value


async def run_with_envelopes(
    strategy: Strategy, task: Task, members: Members, ctx: Context, *, nested: bool
) -> tuple[Outcome, EnvelopeNote | None]:
    """Run a strategy with envelopes; return the outcome with full replies, and the note of the team.

    `nested` says that this team is a member of a team that also shares envelopes; otherwise there is no note.
    """
    writer = EnvelopeWriter(strategy, task, members, ctx, nested=nested)
    inner = EnvelopeContext(ctx, writer)
    history = await writer.seal_history(task.history, ctx)
    outcome = await run_strategy(strategy, replace(task, history=history), members, inner)
    note = writer.note_of(outcome) if nested else None
    warnings = (*outcome.warnings, *writer.warnings)
    return outcome.changed(messages=tuple(expand_envelopes(outcome.messages)), warnings=warnings), note


def expand_envelopes(messages: Iterable[Message]) -> Iterable[Message]:
    """Yield the messages, with the full replies in place of envelopes."""
    for message in messages:
        if isinstance(message, EnvelopeMessage):
            yield from message.whole
        else:
            yield message


class EnvelopeWriter:
    """Writes the envelopes of one team, and stores texts that are too long for them."""

    def __init__(self, strategy: Strategy, task: Task, members: Members, ctx: Context, *, nested: bool) -> None:
        self._settings, self._ctx = task.settings.envelope, ctx
        lead = strategy.lead(task.settings, members)
        self._recipient = lead or TEAM
        leader = members.named(lead) if lead else None
        self._escalation = Escalation((self._settings or DEFAULT_SETTINGS).escalate, leader, task, nested=nested)

    @property
    def warnings(self) -> list[str]:
        """Warnings of leads that ruled on risky replies."""
        return self._escalation.warnings

    @property
    def policy(self) -> EnvelopeLimits:
        return limits_of(self._settings, self._ctx.cutback.summary)

    async def seal_history(self, history: History, ctx: Context) -> History:
        """Return the history of the caller, with envelopes in place of replies from other teams and runs."""
        messages: list[Message] = []
        for number, message in enumerate(history, start=1):
            if message.role == "user" or isinstance(message, EnvelopeMessage):
                messages.append(message)
                continue
            note = bounded_note(None, message.content, self.policy)
            pointers = await self._store(message.content, note, message.name, ctx, f"history/{number}")
            envelope = self._envelope(header_name(message.name), f"history-{number}", note, pointers, ctx)
            messages.append(EnvelopeMessage.of(envelope, message.name, (message,)))
        return History.of(messages) if history else history

    async def seal_reply(self, draft: Draft, task_id: str, ctx: Context, key: str) -> Reply | Failure:
        """Return the reply with an envelope in place of its text; a failure if the reply was too risky and rejected."""
        reply, member = draft.reply, draft.member
        if not reply.messages:
            return reply
        message = await self._seal(reply, member, task_id, ctx, f"{key}/whole")
        ruling = await self._escalation.rule_on(message, draft, ctx, key)
        if ruling is None:
            return self._visible_reply(reply, message)
        if not ruling.passed:
            text = f"Its reply was too risky to go on with: {ruling.note}"
            optional = member.policy.optional
            return Failure(member=member.name, error=REJECTED, message=text, optional=optional)
        if ruling.edited is not None:
            reply = ruling.edited
            message = await self._seal(reply, member, task_id, ctx, f"{key}/edited")
        elif ruling.note:
            envelope = message.envelope.model_copy(update={"next_action": self.policy.cut(ruling.note)})
            message = EnvelopeMessage.of(envelope, message.name, message.whole)
        return self._visible_reply(reply, message)

    def note_of(self, outcome: Outcome) -> EnvelopeNote | None:
        """Return the note of the team: the envelope of its answer, with the highest risk without a ruling."""
        unruled = self._escalation.unruled
        last = outcome.messages[-1] if outcome.messages else None
        if not isinstance(last, EnvelopeMessage):
            return EnvelopeNote(risk_level=unruled)
        envelope = last.envelope
        risk = "medium" if envelope.risk_level in RISKY else envelope.risk_level
        return EnvelopeNote(
            summary=envelope.summary,
            status=envelope.status,
            confidence=envelope.confidence,
            risk_level=unruled if unruled in RISKY else risk,
            artifacts=envelope.artifacts,
            needs=envelope.needs,
            next_action=envelope.next_action,
        )

    def _visible_reply(self, reply: Reply, message: EnvelopeMessage) -> Reply:
        data = shorten_texts(reply.data, self.policy.max_summary_chars)
        return reply.changed(messages=(message,), data=data, whole=reply)

    async def _seal(self, reply: Reply, member: Agent, task_id: str, ctx: Context, key: str) -> EnvelopeMessage:
        note = reply.envelope_note or bounded_note(None, reply.text, self.policy)
        pointers = await self._store(reply.text, note, f"{member.name} at {task_id}", ctx, key)
        pointers += tuple(artifact.pointer for artifact in reply.artifacts)
        envelope = self._envelope(member.name, task_id, note, pointers, ctx)
        return EnvelopeMessage.of(envelope, reply.messages[-1].name, reply.messages)

    @staticmethod
    async def _store(text: str, note: EnvelopeNote, name: str, ctx: Context, key: str) -> tuple[str, ...]:
        """Store the text and return a pointer to it, unless the summary contains all of it."""
        if text in note.summary:
            return ()
        return ((await ctx.workspace.keep(text, name=name, key=key)).pointer,)

    def _envelope(
        self, sender: str, task_id: str, note: EnvelopeNote, pointers: tuple[str, ...], ctx: Context
    ) -> Envelope:
        envelope = Envelope(
            run_id=ctx.workspace.run_id,
            task_id=task_id,
            sender=sender,
            recipient=self._recipient if sender != self._recipient else TEAM,
            status=note.status,
            confidence=note.confidence,
            risk_level=note.risk_level,
            summary=note.summary,
            artifacts=tuple(dict.fromkeys((*pointers, *note.artifacts))),
            needs=note.needs,
            next_action=note.next_action,
        )
        return self.policy.compact(envelope)


class EnvelopeContext:
    """Wraps the context of a team that shares envelopes, and of its scopes and branches; `place` is their path."""

    def __init__(self, inner: Context, writer: EnvelopeWriter, place: str = "") -> None:
        self._inner, self._writer, self._place = inner, writer, place

    @property
    def clock(self) -> Clock:
        return self._inner.clock

    @property
    def workspace(self) -> Workspace:
        return self._inner.workspace

    @property
    def is_stopped(self) -> bool:
        """Whether a decision ends this turn for good."""
        return self._inner.is_stopped

    @property
    def cutback(self) -> Cutback:
        """What the team cuts back now because its budget is tight."""
        return self._inner.cutback

    @property
    def owned(self) -> Owned:
        """The keys that enclosing steps own."""
        return self._inner.owned

    @property
    def tree(self) -> MemberTree | None:
        return self._inner.tree

    async def merge(self, member: Agent, turn: Turn, reply: Reply | Failure, *, key: str) -> Reply | Failure:
        """Apply the changes of a reply; another one that resolved a conflict is written as an envelope too."""
        merged = await self._inner.merge(member, turn, reply, key=key)
        if merged is reply or isinstance(merged, Failure):
            return merged
        draft = Draft(merged, member, turn.output_schema)
        return await self._writer.seal_reply(draft, self._task_id(key), self._inner, f"merged/{key}")

    async def ask(self, member: Agent, turn: Turn, *, key: str) -> Reply | Failure:
        """Ask a member. For work the reply contains an envelope; the reply of a coordination turn is not changed.

        A coordination turn that asks for a note also returns an envelope, because its reply is forwarded.
        """
        if turn.purpose != "work" and turn.envelope_limits is None:
            return await self._inner.ask(member, turn, key=key)
        reply = await self._inner.ask(member, structs.replace(turn, envelope_limits=self._writer.policy), key=key)
        if isinstance(reply, Failure):
            return reply
        draft = Draft(reply, member, turn.output_schema)
        return await self._writer.seal_reply(draft, self._task_id(key), self._inner, key)

    def _task_id(self, key: str) -> str:
        if not self._place:
            return key
        return self._place if key == WORK else f"{self._place}/{key}"

    async def effect(self, key: str, effect: Effect) -> Returned:
        return await self._inner.effect(key, effect)

    async def ask_person(self, question: Question, *, key: str) -> Answer:
        return await self._inner.ask_person(question, key=key)

    async def message(self, text: str, *, key: str, summary: str = "") -> None:
        """Tell all other members something."""
        await self._inner.message(text, key=key, summary=summary)

    async def ask_member(self, name: str, question: str, *, key: str, hand_over: bool = False) -> None:
        await self._inner.ask_member(name, question, key=key, hand_over=hand_over)

    async def changes(
        self,
        *,
        before: str,
        apply: ApplyChange,
        messages: bool = False,
        check: CheckChange | None = None,
        at_once: ApplyChange | None = None,
    ) -> Sequence[AppliedChange]:
        """Carry out what people want changed before an ask."""
        inner = self._inner
        return await inner.changes(before=before, apply=apply, messages=messages, check=check, at_once=at_once)

    @asynccontextmanager
    async def scope(
        self,
        name: str,
        limits: Limits | None = None,
        owns: Collection[str] | None = None,
        priority: int = 0,
        *,
        working: bool = False,
    ) -> AsyncGenerator[Context]:
        async with self._inner.scope(name, limits, owns, priority, working=working) as inner:
            yield EnvelopeContext(inner, self._writer, self._place or name)

    def keep_back(self, closing: Sequence[ClosingAsk], *, closes: bool = False) -> AbstractContextManager[None]:
        return self._inner.keep_back(closing, closes=closes)

    @asynccontextmanager
    async def branches(self, limit: int, *, until: Callable[[], bool] | None = None) -> AsyncGenerator[Branches]:
        async with self._inner.branches(limit, until=until) as inner:
            yield EnvelopeBranches(inner, self)

    async def emit(self, fact: Fact, *, key: str | None = None) -> None:
        await self._inner.emit(fact, key=key)

    def within(self, inner: Context, name: str) -> EnvelopeContext:
        return EnvelopeContext(inner, self._writer, f"{self._place}/{name}" if self._place else name)


class EnvelopeBranches:
    """Branches whose contexts also use envelopes."""

    def __init__(self, inner: Branches, outer: EnvelopeContext) -> None:
        self._inner, self._outer = inner, outer

    def start(self, name: str, work: Callable[[Context], Awaitable[T]]) -> Branch[T]:
        return self._inner.start(name, lambda ctx: work(self._outer.within(ctx, name)))

    def finished(self) -> AsyncIterator[Branch[object]]:
        return self._inner.finished()

    def cancel(self, name: str | None = None) -> None:
        """Cancel every branch that has not finished, or one of them."""
        self._inner.cancel(name)
