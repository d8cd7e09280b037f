"""What a case replays, as the file `NAME.replies.jsonl` beside it: replies of models and tools, by key, and prompts.

Texts of prompts are lines of their own, so that a text which many requests contain is stored once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct, json, structs

from teamwright.documents.nodes import Place, ProblemReport
from teamwright.documents.reader import ReadLimits, read_lines
from teamwright.values.events.agent import EffectKind, PartialUsage, Tally, ValueForm
from teamwright.values.limits import Bounds
from teamwright.values.people import Intervention
from teamwright.values.turns.artifacts import Artifact
from teamwright.values.turns.messages import Message, digest
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import JsonValue, Record

FORMAT = 1
ENDING = ".replies.jsonl"
ID_LENGTH = 12
ROOM = ReadLimits(size=256 << 20, nodes=10_000_000, characters=256 << 20, escapes=True)
_NUMBER = re.compile(r"(\d+)")


class CaseStart(Record, frozen=True, tag="start"):
    """How the run started, besides its team and task. `started_at` is the time of its clock, which starts there, and
    `commit` what its branch of files began at.
    """

    format: int
    seed: int
    started_at: float
    limits: Bounds | None = None
    history: tuple[Message, ...] = ()
    attachments: tuple[Artifact, ...] = ()
    commit: str = ""


class FailedAttempt(Record, frozen=True):
    """An attempt of a call that failed, `at` this second of the run."""

    at: float
    error: str
    message: str
    charged: bool = False
    mark: str | None = None
    usage: Usage = NOTHING


class CallResult(Record, frozen=True):
    """What a call returned, `at` this second of the run. The fields are those of `Returned`."""

    at: float
    value: JsonValue
    usage: Usage = NOTHING
    mark: str | None = None
    truncated: bool = False
    form: ValueForm | None = None
    capped: int | None = None
    artifacts: tuple[Artifact, ...] = ()
    partial_usage: PartialUsage | None = None
    tally: Tally | None = None


class RecordedReply(Record, frozen=True, tag="reply"):
    """The reply of a model, a tool or a function to the call with a key: failed attempts, then a result.

    One without a result was stopped before it had any, failed for good, or was refused by a limit. `prompt` names the
    texts that were sent. In a run with a budget, the call began at the second `began`.
    """

    key: str
    effect: EffectKind
    name: str
    member: str = ""
    request: str = ""
    arguments: JsonValue = None
    failures: tuple[FailedAttempt, ...] = ()
    result: CallResult | None = None
    prompt: tuple[str, ...] = ()
    began: float | None = None

    @property
    def is_answered(self) -> bool:
        """Whether anything came back: then a replay must ask for it."""
        return self.result is not None or bool(self.failures)


class BegunTurn(Record, frozen=True, tag="turn"):
    """A turn that began at this second, with what was left of a budget."""

    key: str
    began: float


class SentToRun(Record, frozen=True, tag="sent"):
    """What a person sent to the run, `at` this second. An answer is in the case, and `answers` is its key."""

    at: float
    answers: str = ""
    intervention: Intervention | None = None


class PromptText(Record, frozen=True, tag="text"):
    """A text of prompts."""

    id: str
    text: str


class StoredFile(Record, frozen=True, tag="file"):
    """The content of a file of the task or of a tool, as a body of the journal stores it."""

    hash: str
    content: JsonValue


Line = CaseStart | RecordedReply | BegunTurn | SentToRun | PromptText | StoredFile
_DECODER: json.Decoder[Line] = json.Decoder(Line)


class Recording(Struct, frozen=True):
    """Everything that a case replays."""

    start: CaseStart
    replies: Mapping[str, RecordedReply]
    sent: tuple[SentToRun, ...] = ()
    texts: Mapping[str, str] = {}
    files: Mapping[str, JsonValue] = {}
    turns: Mapping[str, float] = {}
    """When turns began that knew what was left of a budget, by key."""

    def prompt(self, reply: RecordedReply) -> list[str]:
        """The texts that a call sent."""
        return [self.texts.get(one, "") for one in reply.prompt]

    def with_prompts(self, prompts: Mapping[str, SentPrompt]) -> Recording:
        """Return it with what its calls have sent now."""
        replies = {
            key: reply.changed(request=sent.request, prompt=tuple(map(text_id, sent.texts)), arguments=sent.arguments)
            if (sent := prompts.get(key)) is not None
            else reply
            for key, reply in self.replies.items()
        }
        used = {one: text for sent in prompts.values() for text in sent.texts if (one := text_id(text))}
        kept = {one: self.texts[one] for reply in replies.values() for one in reply.prompt if one in self.texts}
        return structs.replace(self, replies=replies, texts=kept | used)

    def to_text(self) -> str:
        """Return the file: a line each for the start, replies in the order of their keys, and what they refer to."""
        lines: list[Line] = [self.start, *self.sent]
        lines += sorted(self.replies.values(), key=lambda one: natural_key(one.key))
        lines += [BegunTurn(key=key, began=began) for key, began in self.turns.items()]
        needed = dict.fromkeys(one for line in lines if isinstance(line, RecordedReply) for one in line.prompt)
        lines += [PromptText(id=one, text=self.texts[one]) for one in needed if one in self.texts]
        lines += [StoredFile(hash=one, content=content) for one, content in sorted(self.files.items())]
        return "".join(json.encode(line).decode() + "\n" for line in lines)


class SentPrompt(Struct, frozen=True):
    """What a call sent: its digest, and its texts for readers."""

    request: str
    texts: tuple[str, ...]
    arguments: JsonValue = None


def text_id(text: str) -> str:
    """The name of a text in a recording."""
    return digest(text)[:ID_LENGTH]


def natural_key(key: str) -> list[tuple[int, int, str]]:
    """Sort keys with their numbers as numbers: `step-2` before `step-10`."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _NUMBER.split(key)]


def read_recording(path: Path, report: ProblemReport) -> Recording | None:
    """Read the file; reports every line that is not ours, and returns `None` if there is any."""
    written = read_lines(path, report, ROOM)
    if written is None:
        return None
    before, found = len(report.problems), list(_lines(written, report))
    starts = [line for line in found if isinstance(line, CaseStart)]
    if len(starts) != 1 and len(report.problems) == before:
        report.problem(Place(str(path)), f'It has {len(starts)} lines with "type":"start"', "it needs one")
    elif starts and starts[0].format > FORMAT:
        report.problem(Place(str(path)), f"It has the format {starts[0].format}, and this version reads {FORMAT}")
    if len(report.problems) > before:
        return None
    return Recording(
        starts[0],
        {line.key: line for line in found if isinstance(line, RecordedReply)},
        tuple(line for line in found if isinstance(line, SentToRun)),
        {line.id: line.text for line in found if isinstance(line, PromptText)},
        {line.hash: line.content for line in found if isinstance(line, StoredFile)},
        {line.key: line.began for line in found if isinstance(line, BegunTurn)},
    )


def _lines(written: Iterable[tuple[Place, str]], report: ProblemReport) -> Iterable[Line]:
    seen: dict[str, int | None] = {}
    for place, text in written:
        try:
            line: Any = _DECODER.decode(text)
        except DecodeError as error:
            report.problem(place, f"This line is no part of a recording: {error}")
            continue
        if isinstance(line, RecordedReply):
            if line.key in seen:
                report.problem(place, f"The reply {line.key!r} is there twice, first in line {seen[line.key]}")
            seen[line.key] = place.line
        yield line
