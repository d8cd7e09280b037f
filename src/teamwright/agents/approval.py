"""A person's decision about something that is about to happen, asked until it can be used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, NamedTuple, TypeVar

from pydantic import JsonValue

from teamwright.errors import AgentError
from teamwright.values.people import APPROVE, EDIT, Answer, Question

T = TypeVar("T")

Asking = Callable[[Question, str], Awaitable[Answer]]
"""Puts a question to a person, at the place of this name."""


class Decision(NamedTuple, Generic[T]):
    """What a person decided: it may go on (with something else in its place, if edited), or it may not."""

    agreed: bool
    edited: T | None = None
    reason: str = ""


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


def _reason(answer: Answer) -> str:
    who = answer.by or "a person"
    return f"{who} said no: {answer.data}" if answer.data else f"{who} said no"
