"""One question to a person: found in the record, or asked once and waited for, across processes if need be."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from teamwright.runtime.ordering.lane import look_again
from teamwright.runtime.run_state import Waiting
from teamwright.values.events.event import Fact
from teamwright.values.events.person import PersonAnswered, PersonAsked
from teamwright.values.key import join_key, with_attempt
from teamwright.values.people import Answer, Question
from teamwright.values.secrets.classification import stands_for

if TYPE_CHECKING:
    from teamwright.runtime.context.context import RunContext


class Inquiry:
    """A question as the scope that asks it sees it. `place` is claimed already.

    What a strategy asks is answered in journal order. What an agent asks is its own affair, as its effects are, so a
    recorded answer is handed to it at once.
    """

    __slots__ = ("_asked", "_context", "_place", "_question")

    def __init__(self, context: RunContext, place: str, question: Question) -> None:
        self._context, self._place = context, place
        redact = context.run.redactor.text
        draft = None if question.draft is None else redact(question.draft)
        self._question = question.changed(text=redact(question.text), to=redact(question.to), draft=draft)
        body = None if draft is None else context.run.recorder.keep(draft)
        self._asked = PersonAsked(question=self._question.changed(draft=None), draft=body)

    async def answer(self) -> Answer:
        """What the person says, however long it takes."""
        context, run = self._context, self._context.run
        place, recorded = self._match()
        full = join_key(context.path, place)
        event = run.past.answers.get(full) if recorded else None
        if event is None:
            if not recorded:
                run.recorder.add(context.path, place, self._asked)
            answer = await self._wait(full)
            if context.closed:  # the answer waits in the inbox for the next driver
                await run.left()
            event = run.recorder.add(context.path, place, PersonAnswered(answer=answer))
            if not context.in_agent:
                run.turnstile.announce(full)
        assert isinstance(event.fact, PersonAnswered)
        if context.in_agent:
            context.heard_at = event.time
        else:
            await run.turnstile.arrive(context.lane, full, context.agent_scope)
            run.arrived(event)
        return event.fact.answer

    def _match(self) -> tuple[str, bool]:
        """Find the question in the record. On a fork, one that is about something else is asked anew, as `#2`."""
        path, run = self._context.path, self._context.run
        attempt = 1
        while recorded := run.past.questions.get(join_key(path, with_attempt(self._place, attempt))):
            if recorded.fact == self._asked or self._was_masked_more(recorded.fact):
                break
            full = join_key(path, self._place)
            text = self._question.text
            run.differ(
                recorded.number, f"that a person was asked something else at {full!r}", f"asks there: {text[:200]!r}"
            )
            attempt += 1
        return with_attempt(self._place, attempt), recorded is not None

    def _was_masked_more(self, fact: Fact) -> bool:
        """Whether an earlier version asked the same: it also masked short values and what looks like a secret."""
        run, question = self._context.run, self._question
        if run.format > 1 or not isinstance(fact, PersonAsked):
            return False
        draft = None if fact.draft is None else str(run.past.bodies.value(fact.draft))
        asked = fact.question
        return (
            asked.changed(text=question.text, to=question.to) == question.changed(draft=None)
            and stands_for(asked.text, question.text)
            and (draft is None) == (question.draft is None)
            and stands_for(draft or "", question.draft or "")
        )

    async def _wait(self, full: str) -> Answer:
        context, run = self._context, self._context.run
        if context.agent_scope:
            await run.turnstile.caught_up(context.lane, context.agent_scope)
        if full in run.answers:
            return run.answers[full]
        waiting = Waiting(self._question, asyncio.get_running_loop().create_future())
        run.questions[full] = waiting
        at_work = not context.lane.parked
        self._count(1)
        run.turnstile.park(context.lane)
        try:
            return await waiting.answer
        finally:
            run.questions.pop(full, None)
            self._count(-1)
            if context.in_agent and at_work:
                run.turnstile.unpark(context.lane)

    def _count(self, change: int) -> None:
        """Several of an agent's own tasks may ask at once, on one branch: it waits as long as any of them does."""
        context, run = self._context, self._context.run
        lane, before = context.lane, context.lane.asking
        lane.asking += change
        run.turnstile.people_asked += change
        if context.in_agent and (before == 0 or lane.asking == 0):
            run.agents_at_work -= change
        look_again(lane)
