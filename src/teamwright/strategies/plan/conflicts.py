"""Conflicts of workers that talk only to the lead, and to each other only about a conflict.

The channel of a conflict is open only while one worker blocks the other, and for a few messages; then the lead rules.
Conflicts are read from envelopes, so there are none without `share: a2a_lite`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, get_args

from pydantic import TypeAdapter

from teamwright.agents.agent import Agent, Context
from teamwright.agents.review import ask_evaluated
from teamwright.errors import AgentTimeout, NotOwned
from teamwright.strategies.envelopes import Ruling, limits_of, ruling_schema
from teamwright.strategies.part_results import WORK
from teamwright.strategies.plan.bound_plan import evaluator_of_step
from teamwright.strategies.plan.rounds import BriefedRounds, forwarded_limits
from teamwright.strategies.plan.state import PlanState
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.events.team import TeamChannelClosed, TeamChannelOpened, TeamMessageSent
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import Envelope, EnvelopeMessage, History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

STOPPED = frozenset(("blocked", "failed"))
AGAIN = "again"
"""The scope in which a step is redone."""

TALK = """\
{author!r} came to a stop at the step {step!r}, which touches the work of {other!r}: see above. You two may talk it \
over. Tell {hearer!r} in a few sentences how it can go on, or what you need for that. When it is settled, say \
`done` as the status of your envelope.

The task of the team:
{task}"""

RULE = """\
The step {step!r} came to a stop: see above, with what those concerned told each other about it. Decide what holds. \
Answer with one JSON object: {{"decision": "stands" or "again", "note": "what is to be known about it"}}. With "again" \
{author!r} works on the step once more and is told all this; with "stands" the work goes on with the result as it is."""

Decision = Literal["stands", "again"]
RULING_SCHEMA = ruling_schema(get_args(Decision), "what is to be known about it")


class Conflict(NamedTuple):
    """A result whose author is blocked, with the step that blocks it and the worker of that step."""

    step: Step
    author: Agent
    other_step: str
    other: Agent
    message: EnvelopeMessage


class ConflictResolver:
    """Resolves the conflicts of one team; each of two workers may speak `rounds_of_talk` times."""

    def __init__(self, state: PlanState, briefed: BriefedRounds) -> None:
        self._state, self._task, self._briefed = state, state.task, briefed
        self._rounds = state.options.rounds_of_talk

    async def resolve(self, step: Step, author: Agent, ctx: Context) -> None:
        """If a result is a conflict, let the two workers talk and the lead rule."""
        conflict = self._conflict(step, author)
        if conflict is None:
            return
        messages = await self._discuss(conflict, ctx) if ctx.cutback.peers and self._rounds else []
        lead = self._briefed.lead
        if self._state.ended_by is not None:
            return
        lead.add_messages((conflict.message, *messages))
        text = RULE.format(step=step.id, author=author.name)
        reply = await lead.ask(text, ctx, "ruling", output_schema=RULING_SCHEMA)
        if reply is None:
            return
        found = read_answer(reply, _ruling())
        note = self._limit_note(reply.text if isinstance(found, ParseFailure) else found.note, ctx)
        notes = [*messages, Message(name=lead.agent.name, content=note)] if note else messages
        self._briefed.notes[step.id] = notes
        lead.add_messages(notes[len(messages) :])
        if not isinstance(found, ParseFailure) and found.decision == "again":
            await self._redo(conflict, ctx)

    def _limit_note(self, note: str, ctx: Context) -> str:
        """Truncate a forwarded note to the current summary limit."""
        return limits_of(self._task.settings.envelope, ctx.cutback.summary).cut(note)

    def _conflict(self, step: Step, author: Agent) -> Conflict | None:
        last = self._state.results.replies[step.id].messages[-1:]
        if not last or not isinstance(message := last[0], EnvelopeMessage) or message.envelope.status not in STOPPED:
            return None
        lead = self._briefed.lead.agent.name
        for id_ in self._blocking_steps(step, message.envelope):
            other = self._briefed.runner.workers.get(id_)
            if other is not None and other.name not in (author.name, lead) and author.name != lead:
                return Conflict(step, author, id_, other, message)
        return None

    def _blocking_steps(self, step: Step, envelope: Envelope) -> Iterator[str]:
        """Yield the steps that may block this one: those its envelope names, by id or owned key, then its needs."""
        steps = self._briefed.runner.queue.steps
        owners = {key: one.id for one in steps.values() for key in one.owns}
        for need in envelope.needs:
            yield need if need in steps else owners.get(need, "")
        yield from reversed(step.needs)

    async def _discuss(self, conflict: Conflict, ctx: Context) -> list[Message]:
        """Return the messages of two workers, alternating; the one that blocks the other starts."""
        step, between = conflict.step.id, (conflict.author.name, conflict.other.name)
        reason = conflict.message.envelope.summary
        await ctx.emit(TeamChannelOpened(step=step, between=between, reason=reason))
        messages: list[Message] = []
        settled = False
        for number in range(2 * self._rounds):
            speaker, listener = (conflict.other, conflict.author)[:: 1 if number % 2 == 0 else -1]
            reply = await self._ask_peer(conflict, speaker, listener, messages, ctx, f"peers/{number + 1}")
            if reply is None:
                break
            messages.append(reply.messages[-1])
            await self._record_message(conflict, speaker, listener, ctx)
            own = reply.full.envelope_note
            settled = own is not None and own.own and own.status == "done"  # declared by the author, not the default
            if settled:
                break
        await ctx.emit(TeamChannelClosed(step=step, between=between, messages=len(messages), settled=settled))
        return messages

    async def _ask_peer(
        self, conflict: Conflict, speaker: Agent, listener: Agent, messages: Sequence[Message], ctx: Context, key: str
    ) -> Reply | None:
        done = conflict.other_step in self._state.results.replies
        other_step = [self._state.outputs.message_of(conflict.other_step)] if done else []
        text = TALK.format(
            author=conflict.author.name,
            other=conflict.other.name,
            hearer=listener.name,
            step=conflict.step.id,
            task=self._task.text,
        )
        history = History.of((*other_step, conflict.message, *messages))
        turn = Turn(
            text,
            history,
            len(messages) + 1,
            "coordinate",
            envelope_limits=forwarded_limits(self._task),
            attachments=self._task.attachments,
        )
        reply = self._state.heard(await ctx.ask(speaker, turn, key=key))
        return reply if reply is not None and reply.messages else None

    async def _record_message(self, conflict: Conflict, by: Agent, to: Agent, ctx: Context) -> None:
        await ctx.emit(TeamMessageSent(by=by.name, to=(to.name,), round=self._briefed.round_number(conflict.step.id)))

    async def _redo(self, conflict: Conflict, ctx: Context) -> None:
        """Let the author redo its step; if that fails, the first result remains."""
        step, runner, lead = conflict.step, self._briefed.runner, self._briefed.lead
        results = self._state.results
        first = results.replies[step.id]
        await self._record_message(conflict, lead.agent, conflict.author, ctx)
        try:
            async with runner.scope_for(AGAIN, step, ctx) as inner:
                evaluator = evaluator_of_step(step, self._state.options, self._state.members)
                reply = await ask_evaluated(inner, conflict.author, runner.turn_for(step), WORK, evaluator)
        except (AgentTimeout, NotOwned) as error:
            reply = Failure(member=conflict.author.name, error=error.kind, message=str(error))
        if isinstance(reply, Failure):
            self._state.heard(reply)
            return
        await self._record_message(conflict, conflict.author, lead.agent, ctx)
        results.add(step.id, reply.changed(messages=(*first.messages, *reply.messages)))


@cache
def _ruling() -> TypeAdapter[Ruling[Decision]]:
    return TypeAdapter(Ruling[Decision])
