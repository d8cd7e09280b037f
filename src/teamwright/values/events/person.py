"""Facts about questions to people, and their answers."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.events.body import Body
from teamwright.values.models import Record
from teamwright.values.people.questions import Answer, Question


class PersonAsked(Record, frozen=True):
    """A question to a person; its draft is a body."""

    kind: ClassVar = "person.asked"
    question: Question
    draft: Body | None = None


class PersonAnswered(Record, frozen=True):
    kind: ClassVar = "person.answered"
    answer: Answer
