"""Channels between two workers: open only while one is stopped by what the other does, and only for so many words.

Then the lead rules. Conflicts are read from envelopes, so without `share: a2a_lite` there are none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Literal, NamedTuple, get_args

from pydantic import TypeAdapter

from teamwright.agents.context import Context
from teamwright.agents.protocol import Agent
from teamwright.errors import AgentTimeout, NotOwned
from teamwright.strategies.envelopes.context import policy_of
from teamwright.strategies.envelopes.ruling import Ruling, ruling_schema
from teamwright.strategies.parallel.parts import WORK
from teamwright.strategies.plan.hub import Hub
from teamwright.strategies.plan.lead import to_be_told_on
from teamwright.strategies.protocol import Task
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.values.events.team import TeamChannelClosed, TeamChannelOpened, TeamTold
from teamwright.values.specs.plan import Step
from teamwright.values.turns.envelope import Envelope, EnvelopeMessage
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Failure, Reply, Turn

STOPPED = frozenset(("blocked", "failed"))
AGAIN = "again"
"""The scope in which a step is worked on once more."""

TALK = """\
{author!r} came to a stop at the step {step!r}, which touches the work of {other!r}: see above. You two may talk it \
over. Tell {hearer!r} in a few sentences how it can go on, or what you need for that. When it is settled, say \
`done` as the status of your handoff.

The task of the team:
{task}"""

RULE = """\
The step {step!r} came to a stop: see above, with what those concerned told each other about it. Decide what holds. \
Answer with one JSON object: {{"decision": "stands" or "again", "note": "what is to be known about it"}}. With "again" \
{author!r} works on the step once more and is told all this; with "stands" the work goes on with the result as it is."""

Decision = Literal["stands", "again"]
WANTED = ruling_schema(get_args(Decision), "what is to be known about it")


class Conflict(NamedTuple):
    """A result with which its author could not go on, and the step that stands in its way, with who works on it."""

    step: Step
    author: Agent
    about: str
    other: Agent
    told: EnvelopeMessage


class Channels:
    """The channels of one team; `rounds` bounds how often each of two may speak."""

    def __init__(self, task: Task, hub: Hub, steps: Sequence[Step], rounds: int) -> None:
        self._task, self._hub, self._rounds = task, hub, rounds
        self._steps = {step.id: step for step in steps}
        self._owners = {key: step.id for step in steps for key in step.owns}

    async def settle(self, step: Step, author: Agent, ctx: Context) -> None:
        """Where a result is a conflict, let the two concerned talk, and the lead rule."""
        conflict = self._conflict(step, author)
        if conflict is None:
            return
        said = await self._talk(conflict, ctx) if ctx.posture.peers and self._rounds else []
        lead = self._hub.lead
        if lead.ended is not None:
            return
        lead.hear((conflict.told, *said))
        text = RULE.format(step=step.id, author=author.name)
        reply = await lead.ask(text, ctx, "ruling", output_schema=WANTED)
        if reply is None:
            return
        found = read_answer(reply, _ruling())
        note = self._cut(reply.text if isinstance(found, ParseFailure) else found.note, ctx)
        notes = [*said, Message(name=lead.agent.name, content=note)] if note else said
        self._hub.notes[step.id] = notes
        lead.hear(notes[len(said) :])
        if not isinstance(found, ParseFailure) and found.decision == "again":
            await self._work_again(conflict, ctx)

    def _cut(self, note: str, ctx: Context) -> str:
        """What is told on is no longer than other summaries are now."""
        return policy_of(self._task.settings.handoff, ctx.posture.summary).cut(note)

    def _conflict(self, step: Step, author: Agent) -> Conflict | None:
        last = self._hub.flow.parts.replies[step.id].messages[-1:]
        if not last or not isinstance(told := last[0], EnvelopeMessage) or told.envelope.status not in STOPPED:
            return None
        lead = self._hub.lead.agent.name
        for id_ in self._named(step, told.envelope):
            other = self._hub.flow.workers.get(id_)
            if other is not None and other.name not in (author.name, lead) and author.name != lead:
                return Conflict(step, author, id_, other, told)
        return None

    def _named(self, step: Step, envelope: Envelope) -> Iterator[str]:
        """The steps that may stand in its way: those it says it needs, by id or by key, or those it builds on."""
        for need in envelope.needs:
            yield need if need in self._steps else self._owners.get(need, "")
        yield from reversed(step.needs)

    async def _talk(self, conflict: Conflict, ctx: Context) -> list[Message]:
        """What two say to each other, by turns; the one in the way begins."""
        step, between = conflict.step.id, (conflict.author.name, conflict.other.name)
        reason = conflict.told.envelope.summary
        await ctx.emit(TeamChannelOpened(step=step, between=between, reason=reason))
        said: list[Message] = []
        settled = False
        for number in range(2 * self._rounds):
            speaker, hearer = (conflict.other, conflict.author)[:: 1 if number % 2 == 0 else -1]
            reply = await self._word(conflict, speaker, hearer, said, ctx, f"peers/{number + 1}")
            if reply is None:
                break
            said.append(reply.messages[-1])
            await self._told(conflict, speaker, hearer, ctx)
            own = reply.full.handoff
            settled = own is not None and own.own and own.status == "done"  # said, and not only left as it was
            if settled:
                break
        await ctx.emit(TeamChannelClosed(step=step, between=between, messages=len(said), settled=settled))
        return said

    async def _word(
        self, conflict: Conflict, speaker: Agent, hearer: Agent, said: Sequence[Message], ctx: Context, key: str
    ) -> Reply | None:
        flow = self._hub.flow
        about = [flow.message(conflict.about)] if conflict.about in flow.parts.replies else []
        text = TALK.format(
            author=conflict.author.name,
            other=conflict.other.name,
            hearer=hearer.name,
            step=conflict.step.id,
            task=self._task.text,
        )
        history = History.of((*about, conflict.told, *said))
        turn = Turn(text, history, len(said) + 1, "coordinate", handoff=to_be_told_on(self._task))
        reply = await ctx.ask(speaker, turn, key=key)
        if isinstance(reply, Failure):
            self._hub.lead.miss(reply)
            return None
        self._hub.lead.note_warnings(reply)
        if self._hub.lead.ends(reply) or not reply.messages:
            return None
        return reply

    async def _told(self, conflict: Conflict, by: Agent, to: Agent, ctx: Context) -> None:
        await ctx.emit(TeamTold(by=by.name, to=(to.name,), round=self._hub.round_of(conflict.step.id)))

    async def _work_again(self, conflict: Conflict, ctx: Context) -> None:
        """Let the author work on its step once more; if that fails, the first result stands."""
        step, flow, lead = conflict.step, self._hub.flow, self._hub.lead
        first = flow.parts.replies[step.id]
        await self._told(conflict, lead.agent, conflict.author, ctx)
        try:
            async with flow.scope(AGAIN, step, ctx) as inner:
                reply = await inner.ask(conflict.author, flow.turn(step), key=WORK)
        except (AgentTimeout, NotOwned) as error:
            reply = Failure(member=conflict.author.name, error=error.kind, message=str(error))
        if isinstance(reply, Failure):
            lead.miss(reply)
            return
        await self._told(conflict, conflict.author, lead.agent, ctx)
        flow.parts.take(step.id, reply.changed(messages=(*first.messages, *reply.messages)))


@cache
def _ruling() -> TypeAdapter[Ruling[Decision]]:
    return TypeAdapter(Ruling[Decision])
