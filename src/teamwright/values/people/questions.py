"""Questions to a person, and their answers."""

from __future__ import annotations

from typing import Literal

from teamwright.errors import UsageError
from teamwright.values.models import JsonValue, Record
from teamwright.values.record_checks import misfit_of

Reason = Literal["question", "approval", "failure", "pause"]
ABORT = "abort"
"""The answer to a failure that ends the run, whatever the team's recovery."""
APPROVE, EDIT, REJECT = "approve", "edit", "reject"
"""The decisions about a draft."""
RESUME = "resume"
"""The answer that lets a paused member take its turn."""


class Question(Record, frozen=True):
    """A question to a person; `choices`, where given, are the only valid answers.

    An approval has a `draft` of the given `form`, which an edit replaces. `about` distinguishes questions with the
    same text: an answer is valid only for the question that it was given to.
    """

    text: str
    choices: tuple[str, ...] = ()
    to: str = ""
    reason: Reason = "question"
    draft: str | None = None
    form: Literal["text", "json"] = "text"
    about: str = ""


def check_question(question: Question) -> None:
    """Raise `UsageError` if a question can't be recorded."""
    if not isinstance(question, Question):  # pyright: ignore[reportUnnecessaryIsInstance] - from code without types
        raise UsageError(f"A person is asked a Question, not {question!r:.200}; write  Question(text=…)")
    if (wrong := misfit_of(question)) is not None:
        raise UsageError(f"The question to a person can't be recorded: {wrong}")


class Answer(Record, frozen=True):
    """The answer of a person. For a decision about a draft, `data` is the reason or the new content."""

    text: str
    data: JsonValue = None
    by: str = ""

    @classmethod
    def approve(cls, *, by: str = "") -> Answer:
        """Approve the draft as it is."""
        return cls(text=APPROVE, by=by)

    @classmethod
    def edit(cls, instead: JsonValue, *, by: str = "") -> Answer:
        """Approve this in place of the draft."""
        return cls(text=EDIT, data=instead, by=by)

    @classmethod
    def reject(cls, reason: str = "", *, by: str = "") -> Answer:
        """Reject the draft; the reason is recorded and reaches no other member."""
        return cls(text=REJECT, data=reason or None, by=by)
