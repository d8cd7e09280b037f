"""Questions to a person, and their answers."""

from __future__ import annotations

from typing import Literal

from teamwright.values.models import JsonValue, Record

Reason = Literal["question", "approval", "failure"]
ABORT = "abort"
"""What a person says of a failure that is to end the run, whatever the team would do about it."""
APPROVE, EDIT, REJECT = "approve", "edit", "reject"
"""What a person may decide about a draft."""


class Question(Record, frozen=True):
    """What a person is asked; `choices` bounds the answer when given, and `reason` says why somebody is needed.

    An approval is about a `draft`, which an edit replaces; `form` says how it is written. `about` tells questions
    with the same words apart: an answer holds for what it was given to and for nothing else.
    """

    text: str
    choices: tuple[str, ...] = ()
    to: str = ""
    reason: Reason = "question"
    draft: str | None = None
    form: Literal["text", "json"] = "text"
    about: str = ""


class Answer(Record, frozen=True):
    """What the person said; with a decision about a draft, `data` is the reason or what takes its place."""

    text: str
    data: JsonValue = None
    by: str = ""

    @classmethod
    def approve(cls, *, by: str = "") -> Answer:
        """Let it go on as it is."""
        return cls(text=APPROVE, by=by)

    @classmethod
    def edit(cls, instead: JsonValue, *, by: str = "") -> Answer:
        """Let it go on with this in place of the draft."""
        return cls(text=EDIT, data=instead, by=by)

    @classmethod
    def reject(cls, reason: str = "", *, by: str = "") -> Answer:
        """Do not let it go on; the reason is recorded and reaches no other member."""
        return cls(text=REJECT, data=reason or None, by=by)
