"""The envelope that members send each other in place of transcripts, and the limits that keep it small.

An envelope has a fixed schema and is validated when it is created. Its limits are checked separately, so that a text
that is too long can be truncated and need not be asked for again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self, cast

from pydantic import BeforeValidator, Field, JsonValue, StringConstraints, WithJsonSchema, model_validator

from teamwright.values.limits import CHARACTERS_PER_TOKEN
from teamwright.values.text.display import cut
from teamwright.values.turns.messages import Message, single_line
from teamwright.values.value import Record, Value

EnvelopeStatus = Literal["queued", "running", "blocked", "done", "failed"]
RiskLevel = Literal["low", "medium", "high", "critical"]
BudgetLevel = Literal["low", "medium", "high"]
Escalate = Literal["lead", "person", "off"]

SUMMARY_CAPS: Mapping[BudgetLevel, int] = {"low": 80, "medium": 120, "high": 180}
"""The most tokens of a summary at each budget level."""
CONTINUE = "continue"
"""The default of `next_action`, which is not shown."""
ENVELOPE_TOKENS = 8
LEAST_SUMMARY = 16
"""The fewest characters of a summary that says something."""


def percentage(value: float) -> float:
    """Convert a share strictly between 0 and 1 to a whole percentage; other numbers are percentages already."""
    return round(value * 100) if isinstance(value, float) and 0 < value < 1 else value


def _percent(value: object) -> object:
    """Convert a number to a percentage; other values are left to the validation of the field."""
    if isinstance(value, bool):
        raise ValueError("it is a number from 0 to 100, not true or false")  # noqa: TRY004 - pydantic reports ValueError alone
    return percentage(value) if isinstance(value, float) else value


Confidence = Annotated[
    int,
    Field(ge=0, le=100),
    BeforeValidator(_percent),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 100},
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            ]
        }
    ),
]
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]


class Envelope(Value):
    """A message between members: the status of a task, a short summary, and pointers to the evidence."""

    run_id: Text = Field(description="the run")
    task_id: Text = Field(description="the step or task that it is about")
    sender: Text = Field(description="who writes it")
    recipient: Text = Field(description="who it is for: a member, or the one who coordinates")
    status: EnvelopeStatus = Field(description="how far the task is")
    confidence: Confidence = Field(description="how sure the sender is, 0 to 100; 0.91 is read as 91")
    risk_level: RiskLevel = Field(description="high and critical are a matter for the one who coordinates")
    summary: str = Field(description="what came of it, in a few sentences")
    artifacts: tuple[Text, ...] = Field(
        description="pointers to the evidence: paths and URIs, never the content itself"
    )
    needs: tuple[Text, ...] = Field(description="what the sender waits for, or what this unblocks")
    next_action: Text = Field(description="what is to be done next")


class EnvelopeMessage(Message, frozen=True, kw_only=True):
    """The message that forwards a reply: its envelope as text. `whole` is the original, which only results contain."""

    envelope: Envelope
    whole: tuple[Message, ...]

    @classmethod
    def of(cls, envelope: Envelope, name: str, whole: tuple[Message, ...]) -> EnvelopeMessage:
        """Return the message of an envelope under a name; its texts are quoted."""
        return cls(name=name, content=envelope_text(envelope), envelope=envelope, whole=whole)


class EnvelopeNote(Record, frozen=True):
    """The author's part of an envelope about its reply.

    `own` says whether the author wrote it, or it was derived from the reply. `tokens` estimates the tokens of envelopes
    in the turn, both those in its input and its own.
    """

    summary: str = ""
    status: EnvelopeStatus = "done"
    confidence: int = 50
    risk_level: RiskLevel = "low"
    artifacts: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    next_action: str = CONTINUE
    own: bool = True
    tokens: int = 0


class EnvelopeLimits(Value):
    """Upper and lower bounds of the parts of an envelope."""

    min_summary_chars: int = Field(default=LEAST_SUMMARY, ge=0, description="a shorter summary says too little")
    max_summary_chars: int = Field(default=320, ge=1, description="a longer summary is cut")
    max_artifacts: int = Field(default=8, ge=1, description="pointers in one envelope")
    max_needs: int = Field(default=6, ge=1, description="needs in one envelope")

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.max_summary_chars < self.min_summary_chars:
            raise ValueError(
                f"max_summary_chars ({self.max_summary_chars}) is below min_summary_chars ({self.min_summary_chars})"
            )
        return self

    def check(self, envelope: Envelope) -> list[str]:
        """Return a sentence for each limit that the envelope breaks."""
        return list(self._breaches(envelope))

    def _breaches(self, envelope: Envelope) -> Iterator[str]:
        length = len(envelope.summary)
        if length < self.min_summary_chars:
            yield f"the summary has {length} characters, fewer than {self.min_summary_chars}: say more"
        if length > self.max_summary_chars:
            yield f"the summary has {length} characters, more than {self.max_summary_chars}: say less"
        for what, found, most in (
            ("artifacts", len(envelope.artifacts), self.max_artifacts),
            ("needs", len(envelope.needs), self.max_needs),
        ):
            if found > most:
                yield f"there are {found} {what}, more than {most}: keep those that matter most"

    def compact(self, envelope: Envelope) -> Envelope:
        """Truncate the parts of an envelope that are too long.

        The result breaks no limit, except where its summary was too short.
        """
        shorter: dict[str, object] = {}
        if len(envelope.summary) > self.max_summary_chars:
            shorter["summary"] = self.cut(envelope.summary)
        if len(envelope.artifacts) > self.max_artifacts:
            shorter["artifacts"] = envelope.artifacts[: self.max_artifacts]
        if len(envelope.needs) > self.max_needs:
            shorter["needs"] = envelope.needs[: self.max_needs]
        return envelope.model_copy(update=shorter) if shorter else envelope

    def cut(self, text: str) -> str:
        """Truncate a text to the limit of a summary."""
        return cut(text, self.max_summary_chars)


class EnvelopeSettings(Value):
    """Envelope settings of a team with `share: a2a_lite`."""

    max_summary_chars: int = Field(default=320, ge=LEAST_SUMMARY, description="a longer summary is cut")

    budget: BudgetLevel = Field(
        default="medium", description="the budget profile, which bounds summaries too: 80, 120 or 180 tokens"
    )
    escalate: Escalate = Field(
        default="lead",
        description="who rules on a reply of high or critical risk: the team's lead, or a person where it has none;"
        " always a person; or no one",
    )


def envelope_text(envelope: Envelope) -> str:
    """Return an envelope as text: each part on one line, its texts in quotes.

    So no text can look like another part or like the header of a message.
    """
    lines = [
        f"status: {envelope.status}, confidence: {envelope.confidence}, risk_level: {envelope.risk_level}",
        f"summary: {_quoted(envelope.summary)}",
        f"artifacts: {', '.join(map(_quoted, envelope.artifacts))}" if envelope.artifacts else "",
        f"needs: {', '.join(map(_quoted, envelope.needs))}" if envelope.needs else "",
        f"next_action: {_quoted(envelope.next_action)}" if envelope.next_action != CONTINUE else "",
    ]
    return "\n".join(line for line in lines if line)


def _quoted(text: str) -> str:
    return json.dumps(single_line(text), ensure_ascii=False)


def envelope_tokens(envelope: Envelope | EnvelopeNote) -> int:
    """Estimate the tokens of an envelope."""
    texts = (envelope.summary, envelope.next_action, *envelope.artifacts, *envelope.needs)
    return ENVELOPE_TOKENS + sum(-(-len(text) // CHARACTERS_PER_TOKEN) for text in texts)


def envelope_schema() -> dict[str, JsonValue]:
    """The JSON Schema of an envelope."""
    schema = cast("dict[str, JsonValue]", Envelope.model_json_schema())
    for field in cast("dict[str, dict[str, JsonValue]]", schema["properties"]).values():
        field.pop("title", None)  # repeats the field's name
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Teamwright envelope"}
