"""Questions to a person, their answers, and what else people send to a running team."""

from __future__ import annotations

from typing import ClassVar, Literal

from teamwright.values.frozen import JsonValue, Record

Reason = Literal["question", "approval", "failure"]


class Question(Record, frozen=True):
    """What a person is asked; `choices` bounds the answer when given, and `reason` says why somebody is needed."""

    text: str
    choices: tuple[str, ...] = ()
    to: str = ""
    reason: Reason = "question"


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


class Mark(Record, frozen=True, tag_field="kind", tag="checkpoint"):
    """Give the point that the run has come to a name."""

    kind: ClassVar = "checkpoint"
    name: str
    by: str = ""


Intervention = Answered | Cancel | Pause | Mark
