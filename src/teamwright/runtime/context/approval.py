"""The points around an ask at which a person has to agree: before the member begins, and before its reply counts.

Nothing unapproved reaches other members: the ask begins after the first point and has no ending before the second.
"""

from __future__ import annotations

from msgspec.structs import replace
from pydantic_core import to_json

from teamwright.agents.approval import REJECTED, Draft, ask_for_decision, edited_text
from teamwright.agents.contract.agent import Agent
from teamwright.runtime.context.question import ask_person_at
from teamwright.runtime.scope import Scope
from teamwright.values.people import Answer, Approve, Question, approval_question
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Failure, Reply, Turn

BEFORE, AFTER = "approve-before", "approve-after"
NO_POINTS = Approve.model_construct()


class ApprovalGate:
    """The approvals around one ask and its further attempts."""

    __slots__ = ("_after", "_before", "_member", "_place", "_scope", "_turn", "refusal")

    def __init__(self, scope: Scope, member: Agent, place: str, points: Approve, *, after: bool) -> None:
        self._scope, self._member, self._place = scope, member, place
        self._before, self._after = points.before, after
        self._turn: Turn | None = None
        self.refusal: Failure | None = None

    @classmethod
    def of(cls, scope: Scope, member: Agent, place: str, stands_in: ApprovalGate | None = None) -> ApprovalGate | None:
        """Return the gate of an ask; a fallback needs every approval that the member it stands in for needs."""
        points = member.policy.approve
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
