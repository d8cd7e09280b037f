"""Questions to a person, their answers, and what else people send to a running team."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.frozen import JsonValue, Record


class Question(Record, frozen=True):
    """What a person is asked; `choices` bounds the answer when given."""

    text: str
    choices: tuple[str, ...] = ()
    to: str = ""


class Answer(Record, frozen=True):
    """What the person said."""

    text: str
    data: JsonValue = None
    by: str = ""


class Answered(Record, frozen=True, tag_field="kind", tag="answer"):
    """An answer on its way to the question with this key."""

    kind: ClassVar = "answer"
    key: str
    answer: Answer


class Cancel(Record, frozen=True, tag_field="kind", tag="cancel"):
    """End the run for good."""

    kind: ClassVar = "cancel"
    reason: str = ""
    by: str = ""


class Pause(Record, frozen=True, tag_field="kind", tag="pause"):
    """Let calls under way finish, start no further ones, and set the run down."""

    kind: ClassVar = "pause"
    by: str = ""


Intervention = Answered | Cancel | Pause
