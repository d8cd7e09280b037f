"""What people send to a run: answers, and commands to cancel it, pause it or name a checkpoint."""

from __future__ import annotations

from typing import ClassVar

from teamwright.values.models import Record
from teamwright.values.people.questions import Answer


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
