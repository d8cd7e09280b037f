"""Questions to a person, their answers, and what else people send to a running team."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from teamwright.values.frozen import Value


class Question(Value):
    """What a person is asked; `choices` bounds the answer when given."""

    text: str
    choices: tuple[str, ...] = ()
    to: str = ""


class Answer(Value):
    """What the person said."""

    text: str
    data: JsonValue = None
    by: str = ""


class Answered(Value):
    """An answer on its way to the question with this key."""

    kind: Literal["answer"] = "answer"
    key: str
    answer: Answer


class Cancel(Value):
    """End the run for good."""

    kind: Literal["cancel"] = "cancel"
    reason: str = ""
    by: str = ""


class Pause(Value):
    """Let calls under way finish, start no further ones, and set the run down."""

    kind: Literal["pause"] = "pause"
    by: str = ""


Intervention = Annotated[Answered | Cancel | Pause, Field(discriminator="kind")]
