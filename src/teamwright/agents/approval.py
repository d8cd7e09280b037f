"""A person's decision about something that is about to happen, asked until it can be used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.context import AgentLike
from teamwright.agents.contract import spec_of
from teamwright.agents.schemas.schema import Schema, with_data, with_welcome_data
from teamwright.errors import AgentError
from teamwright.values.people.questions import APPROVE, EDIT, Answer, Question
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply

T = TypeVar("T")

REJECTED = "rejected"
"""What a reply or a step has failed with that somebody said no to."""

Asking = Callable[[Question, str], Awaitable[Answer]]
"""Puts a question to a person, at the place of this name."""


class Decision(NamedTuple, Generic[T]):
    """What a person decided: it may go on (with something else in its place, if edited), or it may not."""

    agreed: bool
    edited: T | None = None
    reason: str = ""


class Draft(NamedTuple):
    """A reply that counts only once a person has agreed; `welcome` is the form that its asker would like."""

    reply: Reply
    member: AgentLike
    welcome: Schema | None

    def edited(self, data: JsonValue) -> Reply:
        """The reply with another text; whatever shape its data must have, the text has to have it."""
        text = edited_text(data)
        *before, last = self.reply.messages or (Message(name=self.member.name, content=""),)
        edited = self.reply.changed(messages=(*before, last.changed(content=text)), data=None, handoff=None)
        spec = spec_of(self.member)
        if spec is not None and spec.output_schema is not None:
            return with_data(edited, spec.output_schema, "The edited reply")
        if self.reply.data is not None:
            return edited.changed(data=_data(text))
        return with_welcome_data(edited, self.welcome)


async def decided(ask: Asking, question: Question, place: str, fit: Callable[[JsonValue], T]) -> Decision[T]:
    """Ask a person; an edit that `fit` refuses with an `AgentError` is told back, and they are asked again.

    Whatever is neither a yes nor an edit is a no.
    """
    asked, number = question, 1
    while True:
        answer = await ask(asked, place if number == 1 else f"{place}-{number}")
        if answer.text == APPROVE:
            return Decision(agreed=True)
        if answer.text != EDIT:
            return Decision(agreed=False, reason=_reason(answer))
        try:
            return Decision(agreed=True, edited=fit(answer.data))
        except AgentError as error:
            asked = question.changed(text=f"{question.text} (The last edit can't be used: {error})")
            number += 1


def edited_text(data: JsonValue) -> str:
    """What a person wrote in place of a text."""
    if not isinstance(data, str):
        raise AgentError("an edit must be a text")
    return data


def _data(text: str) -> JsonValue:
    """The data of a reply that had some, as it is after an edit; none, where the text is no JSON."""
    try:
        return from_json(text)
    except ValueError:
        return None


def _reason(answer: Answer) -> str:
    who = answer.by or "a person"
    return f"{who} said no: {answer.data}" if answer.data else f"{who} said no"
