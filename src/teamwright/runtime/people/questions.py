"""Asks people: an agent's question, the approval of a task or a reply, and the confirmation of what a run will cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace
from pydantic_core import to_json

from teamwright.agents.agent import Agent
from teamwright.agents.review import REJECTED, Draft, ask_for_decision, edited_text, rejection_reason
from teamwright.runtime.run_state import PendingQuestion
from teamwright.runtime.scope import Scope
from teamwright.values.events.run import PersonAnswered, PersonAsked
from teamwright.values.limits import Bounds, ForecastBasis, Limits, Quantiles, SpendForecast, lowered
from teamwright.values.people import (
    CONFIRM_CHOICES,
    SMALLER,
    YES,
    Answer,
    Confirm,
    Question,
    approval_question,
    check_question,
    confirmation_key,
    lower_ceiling,
)
from teamwright.values.run_keys import join_key, with_attempt
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Failure, Reply, Turn


async def ask_person_at(scope: Scope, place: str, question: Question) -> Answer:
    """Ask a person under a key that is claimed already, or that nothing else can claim."""
    if scope.is_closed:
        await scope.run.park_until_cancelled()
    return await QuestionCall(scope, place, question).answer()


class QuestionCall:
    """A question as seen by the scope that asks it. `place` is claimed already.

    Answers to a strategy are delivered in journal order. A recorded answer to an agent is returned at once, like the
    result of an effect.
    """

    __slots__ = ("_asked", "_place", "_question", "_scope")

    def __init__(self, scope: Scope, place: str, question: Question) -> None:
        self._scope, self._place = scope, place
        check_question(question)
        redact = scope.run.redactor.text
        draft = None if question.draft is None else redact(question.draft)
        self._question = question.changed(text=redact(question.text), to=redact(question.to), draft=draft)
        body = None if draft is None else scope.run.recorder.store(draft)
        self._asked = PersonAsked(question=self._question.changed(draft=None), draft=body)

    async def answer(self) -> Answer:
        """Return the person's answer, however long it takes."""
        scope, run = self._scope, self._scope.run
        place, recorded = self._find_recorded()
        full = join_key(scope.path, place)
        event = run.record.answers.get(full) if recorded else None
        if event is None:
            if not recorded:
                run.recorder.add(scope.path, place, self._asked)
            answer = await self._wait(full)
            if scope.is_closed:  # the answer waits in the inbox for the next driver
                await run.park_until_cancelled()
            event = run.recorder.add(scope.path, place, PersonAnswered(answer=answer))
            if not scope.in_agent:
                run.delivery.enqueue(full)
        assert isinstance(event.fact, PersonAnswered)
        if scope.in_agent:
            scope.answered_at = event.time
        else:
            await run.delivery.wait_turn(scope.lane, full, scope.agent_scope)
            run.advance_to(event)
        return event.fact.answer

    def _find_recorded(self) -> tuple[str, bool]:
        """Find the question in the record. On a fork, a different question is asked again under the key `…#2`."""
        path, run = self._scope.path, self._scope.run
        attempt = 1
        while recorded := run.record.questions.get(join_key(path, with_attempt(self._place, attempt))):
            if recorded.fact == self._asked:
                break
            full = join_key(path, self._place)
            text = self._question.text
            run.report_mismatch_at(
                recorded.number, f"that a person was asked something else at {full!r}", f"asks there: {text[:200]!r}"
            )
            attempt += 1
        return with_attempt(self._place, attempt), recorded is not None

    async def _wait(self, full: str) -> Answer:
        scope, run = self._scope, self._scope.run
        if scope.agent_scope:
            await run.delivery.wait_caught_up(scope.lane, scope.agent_scope)
        if full in run.answers:
            return run.answers[full]
        waiting = PendingQuestion(self._question, asyncio.get_running_loop().create_future())
        run.questions[full] = waiting
        try:
            with scope.waiting():
                return await waiting.answer
        finally:
            run.questions.pop(full, None)


BEFORE, AFTER = "confirm-before", "confirm-after"
NO_POINTS = Confirm.model_construct()


class ApprovalGate:
    """The approvals around one ask and its further attempts."""

    __slots__ = ("_after", "_before", "_member", "_place", "_scope", "_turn", "refusal")

    def __init__(self, scope: Scope, member: Agent, place: str, points: Confirm, *, after: bool) -> None:
        self._scope, self._member, self._place = scope, member, place
        self._before, self._after = points.before, after
        self._turn: Turn | None = None
        self.refusal: Failure | None = None

    @classmethod
    def of(cls, scope: Scope, member: Agent, place: str, stands_in: ApprovalGate | None = None) -> ApprovalGate | None:
        """Return the gate of an ask; a fallback needs every approval that the member it stands in for needs."""
        points = member.policy.confirm
        if points is None and stands_in is None:
            return None
        points = points or NO_POINTS
        after = points.after or (stands_in is not None and stands_in._after)
        return cls(scope, member, place, points, after=after) if points.before or after else None

    async def approve_task(self, turn: Turn) -> Turn:
        """Return the turn once a person has agreed to it; the person is asked once, however often it is tried."""
        if self._before:
            self._before = False
            question = approval_question(
                f"May {self._member.name!r} begin with this task?", turn.task, about=turn.digest
            )
            decision = await ask_for_decision(self._ask, question, f"{self._place}/{BEFORE}", edited_text)
            if not decision.approved:
                self.refusal = self._refused(f"It was not to begin: {decision.reason}")
            elif decision.edited is not None:
                turn = replace(turn, task=decision.edited)
        self._turn = turn
        return turn

    async def approve_reply(self, reply: Reply, child: Scope) -> Reply | Failure:
        """Return the reply once a person has agreed to it, or the failure that it was rejected."""
        if not self._after:
            return reply
        question = approval_question(
            f"May this reply of {self._member.name!r} stand?", reply.text, about=_digest(reply)
        )

        async def ask(question: Question, place: str) -> Answer:
            return await ask_person_at(child, child.claim(place), question)

        draft = Draft(reply, self._member, self._turn.output_schema if self._turn else None)
        decision = await ask_for_decision(ask, question, AFTER, draft.edited)
        if decision.approved:
            return decision.edited or reply
        # Earlier messages of the reply remain; the rejected answer does not.
        return self._refused(f"Its reply was not to stand: {decision.reason}", reply.messages[:-1])

    async def _ask(self, question: Question, place: str) -> Answer:
        return await ask_person_at(self._scope, place, question)

    def _refused(self, why: str, messages: tuple[Message, ...] = ()) -> Failure:
        return Failure(member=self._member.name, error=REJECTED, message=why, messages=messages)


def _digest(reply: Reply) -> str:
    """Return a digest of the whole reply, because a person approves all of it but sees only its last message."""
    said = [f"{message.name} {message.content}" for message in reply.messages]
    return digest(to_json([reply.data, reply.context_updates]).decode(), str(reply.signal), *said)


BASIS: dict[ForecastBasis, str] = {
    "runs": "{runs} past runs of this team",
    "simulation": "{runs} simulated runs with usual figures, since there are too few past runs of this team",
    "unknown": "nothing: this team has too few past runs and can't be simulated",
}


class Confirmed(NamedTuple):
    """A person's decision about a run: whether it may begin, the limits that hold, and why it may not."""

    may_begin: bool
    limits: Limits | None
    reason: str = ""


async def confirm_run(scope: Scope, team: str, forecast: SpendForecast, limits: Limits | None) -> Confirmed:
    """Ask a person whether a run may begin, and return the decision."""
    key = confirmation_key(team)
    question = _recorded_question(scope, key) or confirmation_question(team, forecast)
    answer = await ask_person_at(scope, key, question)
    if answer.text == YES:
        return Confirmed(may_begin=True, limits=limits)
    if answer.text != SMALLER:
        return Confirmed(may_begin=False, limits=limits, reason=rejection_reason(answer))
    return Confirmed(may_begin=True, limits=lowered(limits, lower_ceiling(key, answer.data)))


def _recorded_question(scope: Scope, key: str) -> Question | None:
    """The question as it was asked, so that a run waits for the same answer in whatever words a later version asks."""
    record = scope.run.record
    asked = record.questions[key].fact if key in record.questions else None
    if not isinstance(asked, PersonAsked) or asked.draft is None:
        return None
    return asked.question.changed(draft=str(record.bodies.value(asked.draft)))


def confirmation_question(team: str, forecast: SpendForecast) -> Question:
    """Return the question whether a run of a team may begin; its draft shows the forecast and the ceiling."""
    return Question(
        text=f"May this run of {team!r} begin?",
        choices=CONFIRM_CHOICES,
        reason="approval",
        draft=forecast_text(forecast),
    )


def forecast_text(forecast: SpendForecast) -> str:
    """The forecast as a small table: its money, tokens and asks, the ceiling, and what it is based on."""
    rows = {
        "cost": _amounts(forecast.usd, _money) or "not known: no price is known for a model of this team",
        "tokens": _amounts(forecast.tokens, _count) or "not known",
        "asks": _amounts(forecast.asks, _count) or "not known",
        "ceiling": _ceiling(forecast.ceiling),
        "based on": BASIS[forecast.basis].format(runs=forecast.runs),
    }
    return "\n".join(f"{name:<9} {value}" for name, value in rows.items())


def _amounts(quantiles: Quantiles | None, shown: Callable[[float], str]) -> str:
    return "" if quantiles is None else f"{shown(quantiles.p50)} (p50), {shown(quantiles.p90)} (p90)"


def _count(amount: float) -> str:
    return f"{amount:,.0f}"


def _money(usd: float) -> str:
    """An amount of money: in cents, and more exactly below a dollar."""
    if usd >= 1:
        return f"${usd:,.2f}"
    return f"${usd:.4f}" if usd >= 0.01 or not usd else f"${usd:.6f}"


def _ceiling(bounds: Bounds) -> str:
    """The limits that hold; one on time or calls alone does not bound what a run costs."""
    given = {
        "usd": None if bounds.usd is None else _money(bounds.usd),
        "tokens": None if bounds.tokens is None else f"{_count(bounds.tokens)} tokens",
        "calls": None if bounds.calls is None else f"{_count(bounds.calls)} calls",
        "seconds": None if bounds.seconds is None else f"{bounds.seconds:g} seconds",
    }
    listed = ", ".join(text for text in given.values() if text is not None)
    if bounds.tokens is not None or bounds.usd is not None:
        return listed
    return "none: no limit on tokens or money is set" + (f" ({listed})" if listed else "")
