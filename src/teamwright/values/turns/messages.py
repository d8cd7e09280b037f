"""Messages, append-only conversations that turns share without copying, and the envelopes that members send each other
in place of transcripts.

No message can forge a header, `# name:`: a line that looks like one gets a backslash before its `#`, and a line that
has backslashes there already gets one more, so that the quoting is reversible. An envelope's limits are checked apart
from its schema, so that a text that is too long can be truncated and need not be asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from typing import Annotated, Literal, Self, cast, overload

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, model_validator
from typing_extensions import override

from teamwright.values.limits import CHARACTERS_PER_TOKEN
from teamwright.values.text.display import cut
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.value import JsonValue, Record, Value

Role = Literal["user", "assistant"]
DIGEST_BYTES = 20
_NEW_HASH = blake2b(digest_size=DIGEST_BYTES)
"""Copying it takes a third of the time of creating one."""


def digest(text: str, *more: str) -> str:
    """Return the content hash of one or more strings as hex; it identifies bodies and turns."""
    if more:
        text = "".join([f"{len(part)}:{part}" for part in (text, *more)])
    hashed = _NEW_HASH.copy()
    hashed.update(text.encode("utf-8", "surrogatepass"))
    return hashed.hexdigest()


class Message(Record, frozen=True):
    """One message: its author's name, its text, its role, and the files that go with it."""

    name: str
    content: str
    role: Role = "assistant"
    attachments: tuple[Artifact, ...] = ()

    @override
    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data; `attachments` only where there are some."""
        fields = super().to_json()
        if not self.attachments:
            del fields["attachments"]
        return fields


def _extended_digest(before: str, messages: Sequence[Message]) -> str:
    """Extend the rolling digest of a conversation by these messages."""
    for message in messages:
        name, role, content = message.name, message.role, message.content
        before = digest(f"{before} {role} {len(name)} {name} {content}")
        if message.attachments:
            before = digest(before, *(part for one in message.attachments for part in one.identity))
    return before


class History(Sequence[Message]):
    """An immutable slice of a conversation. It shares the list of messages, so it is cheap to create."""

    __slots__ = ("_messages", "_start", "_stop", "digest")

    def __init__(self, messages: list[Message], start: int, stop: int, digest: str) -> None:
        self._messages, self._start, self._stop = messages, start, stop
        self.digest = digest

    @classmethod
    def of(cls, messages: Iterable[Message]) -> History:
        """Return a history of messages that belong to no conversation."""
        kept = list(messages)
        return cls(kept, 0, len(kept), _extended_digest("", kept))

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return self._messages[self._start : self._stop][index]
        size = len(self)
        if not -size <= index < size:
            raise IndexError(index)
        return self._messages[self._start + (index if index >= 0 else index + size)]

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[Message]:
        for index in range(self._start, self._stop):
            yield self._messages[index]

    def __repr__(self) -> str:
        return f"History({len(self)} messages, {self.digest[:8]})"


class Conversation:
    """An append-only list of messages.

    Its digest is rolling: it is computed from the previous one and the new message, so appending takes constant work.
    It is computed lazily, in `history`, since many messages never reach a prompt.
    """

    __slots__ = ("_digest", "_digested", "_messages")

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._digest, self._digested = "", 0

    def append(self, message: Message) -> None:
        """Append a message."""
        self._messages.append(message)

    def extend(self, messages: Iterable[Message]) -> None:
        """Append several messages, in order."""
        self._messages.extend(messages)

    def history(self) -> History:
        """The history of all messages so far."""
        length = len(self._messages)
        self._digest = _extended_digest(self._digest, self._messages[self._digested :])
        self._digested = length
        return History(self._messages, 0, length, self._digest)

    def since(self, start: int) -> tuple[Message, ...]:
        """The messages from the given position on."""
        return tuple(self._messages[start:])

    def __len__(self) -> int:
        return len(self._messages)


EMPTY = Conversation().history()


LINE_BREAKS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The line breaks of `str.splitlines`, any of which a reader may take for the end of a line."""
MOST_NAME = 120
"""The most characters of a line that are searched for a name."""
ROLES = frozenset(("user", "system", "assistant", "human", "developer"))
"""Names that every reader takes for a speaker."""

_BLANKS = " \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_UNSEEN = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_INVISIBLE = (
    "".join(map(chr, (*range(0x2000, 0x2010), *range(0x2060, 0x2065))))
    + " \t\u00a0\u1680\u202f\u205f\u3000\u00ad\ufeff"
)
_HASHES, _COLONS = "#\uff03", ":\uff1a"


@cache
def _lookalike() -> re.Pattern[str]:
    """Return what finds the beginnings of lines that look like a header; few messages contain a `#`."""
    # Every repetition is bounded or ends at the end of its line, so that a search takes linear time.
    return re.compile(
        rf"(?:^|(?<=[{LINE_BREAKS}]))"
        rf"([{_UNSEEN}]{{0,16}}+(?:[{_BLANKS}][{_UNSEEN}]{{0,16}}+){{0,3}}+)"
        rf"(?=\\*+([{_HASHES}]{{1,6}}+)([^{LINE_BREAKS}{_COLONS}]{{0,{MOST_NAME}}}+)[{_COLONS}]"
        rf"([^{LINE_BREAKS}]*+))"
    )


def with_header(name: str, text: str, speakers: Collection[str] = ()) -> str:
    """Return a text under its author's header, with lines quoted that look like a header."""
    return f"# {header_name(name)}:\n{quote_headers(text, speakers)}"


def quote_headers(text: str, speakers: Collection[str] = ()) -> str:
    """Quote every line that looks like a header.

    Such a line consists of one `#` and text that ends in a colon, or begins with up to six `#` and the name of a
    speaker. Other lines, such as Markdown headings and comments in code, stay as they are.
    """
    if not any(mark in text for mark in _HASHES):
        return text
    known = ROLES.union(map(str.casefold, speakers))

    def quote(found: re.Match[str]) -> str:
        indent, hashes, name, rest = found.groups()
        bare = not (rest := rest.strip(_INVISIBLE)) or rest[-1] in _COLONS
        words = name.strip().strip("*_`").casefold().split()
        spoken = bool(words) and (words[0] == "tool" or (len(words) == 1 and words[0] in known))
        return f"{indent}\\" if spoken or (len(hashes) == 1 and bare) else indent

    return _lookalike().sub(quote, text)


@lru_cache(maxsize=1024)
def header_name(name: str) -> str:
    """Return a name as it is written in a header: on one line, without characters that would end the header."""
    plain = "".join(one if one.isprintable() and one not in _HASHES + _COLONS else " " for one in name)
    return single_line(plain)[:MOST_NAME].rstrip() or "unnamed"


def transcript(messages: Iterable[Message]) -> str:
    """Return all messages under their headers, separated by empty lines."""
    said = list(messages)
    speakers = {message.name for message in said}
    return "\n\n".join(with_header(message.name, message.content, speakers) for message in said)


def single_line(text: str) -> str:
    """Collapse all whitespace of a text, including line breaks, to single blanks."""
    return " ".join(text.split())


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

    length: int = Field(default=320, ge=LEAST_SUMMARY, description="characters of a summary; a longer one is cut")
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
