"""Asks a person to approve, edit or reject something before it takes effect, until the answer is usable."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.contract.agent import Agent
from teamwright.agents.schema_validation import Schema, with_data, with_preferred_data
from teamwright.errors import AgentError
from teamwright.values.people import APPROVE, EDIT, Answer, Question
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply

T = TypeVar("T")

REJECTED = "rejected"
"""The error kind of a reply or a step that a person rejected."""

QuestionAsker = Callable[[Question, str], Awaitable[Answer]]
"""Asks a person a question under this key."""


class ApprovalDecision(NamedTuple, Generic[T]):
    """A person's decision: approved, perhaps with an edited value, or rejected with a reason."""

    approved: bool
    edited: T | None = None
    reason: str = ""


class Draft(NamedTuple):
    """A reply that waits for approval; `preferred_schema` is the schema that its asker prefers."""

    reply: Reply
    member: Agent
    preferred_schema: Schema | None

    def edited(self, data: JsonValue) -> Reply:
        """The reply with another text; raises if its schema requires data that the text does not have."""
        text = edited_text(data)
        *before, last = self.reply.messages or (Message(name=self.member.name, content=""),)
        edited = self.reply.changed(messages=(*before, last.changed(content=text)), data=None, envelope_note=None)
        spec = self.member.spec
        if spec is not None and spec.output_schema is not None:
            return with_data(edited, spec.output_schema, "The edited reply")
        if self.reply.data is not None:
            return edited.changed(data=_parse_json(text))
        return with_preferred_data(edited, self.preferred_schema)


async def ask_for_decision(
    ask: QuestionAsker, question: Question, place: str, parse_edit: Callable[[JsonValue], T]
) -> ApprovalDecision[T]:
    """Ask a person; if `parse_edit` refuses an edit with an `AgentError`, ask again with that error in the question.

    An answer that is neither an approval nor an edit is a rejection.
    """
    asked, number = question, 1
    while True:
        answer = await ask(asked, place if number == 1 else f"{place}-{number}")
        if answer.text == APPROVE:
            return ApprovalDecision(approved=True)
        if answer.text != EDIT:
            return ApprovalDecision(approved=False, reason=rejection_reason(answer))
        try:
            return ApprovalDecision(approved=True, edited=parse_edit(answer.data))
        except AgentError as error:
            asked = question.changed(text=f"{question.text} (The last edit can't be used: {error})")
            number += 1


def edited_text(data: JsonValue) -> str:
    """Return the text of an edit; raises `AgentError` if the edit is not a string."""
    if not isinstance(data, str):
        raise AgentError("an edit must be a text")
    return data


def _parse_json(text: str) -> JsonValue:
    """Parse an edited text as JSON; return `None` if it is not."""
    try:
        return from_json(text)
    except ValueError:
        return None


def rejection_reason(answer: Answer) -> str:
    """Return who rejected something, and why where they said so."""
    who = answer.by or "a person"
    return f"{who} said no: {answer.data}" if answer.data else f"{who} said no"
