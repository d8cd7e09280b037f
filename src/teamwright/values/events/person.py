"""Facts about questions to people, and their answers."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.events.body import Body
from teamwright.values.models import Record
from teamwright.values.people.questions import Answer, Question


class PersonAsked(Record, frozen=True):
    """A person is asked; what the question has as its draft stands in a body."""

    kind: ClassVar = "person.asked"
    question: Question
    draft: Body | None = None


class PersonAnswered(Record, frozen=True):
    kind: ClassVar = "person.answered"
    answer: Answer
