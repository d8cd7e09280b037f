"""What an author hands over beside its reply: how a model is asked for it, and how it is read out of what anybody said.

What can't be read is made from the reply itself, so asking never costs a second request and never fails a turn.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast, get_args

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.text.json_scan import JsonScan
from teamwright.values.turns.envelope import (
    CONTINUE,
    EnvelopeLimits,
    EnvelopeStatus,
    HandoffNote,
    RiskLevel,
    envelope_tokens,
    percentage,
)
from teamwright.values.turns.turn import Reply, Turn

KEY = "handoff"
FENCE = "```"
OPENING = re.compile(rf"{FENCE}(?:({KEY})|(?:json)?(?=\s*\{{))\s*")
SAID_RISK = re.compile(r"risk[ _]?level\W+(\w+)", re.IGNORECASE)
MOST_TRIED = 100
"""Fences that are tried: a text that repeats them without end must not hold up the run."""
FIELDS = frozenset(("status", "confidence", "risk_level", "summary", "artifacts", "needs", "next_action"))
NEEDED = frozenset(("summary", "status"))
STATUSES: Mapping[str, EnvelopeStatus] = {one: one for one in get_args(EnvelopeStatus)}
RISKS: Mapping[str, RiskLevel] = {one: one for one in get_args(RiskLevel)}
ALL = "The whole answer: "
"""What stands before an answer that is shorter than a summary may be."""

ASK = """\
Your team sees a short handoff in place of your answer. Write it below the answer:
```handoff
{{"status": "done, blocked or failed", "confidence": 0 to 100, "risk_level": "low, medium, high or critical", \
"summary": "what the others must know, at most {most} characters", "needs": [], "next_action": ""}}
```"""


def asked_for(policy: EnvelopeLimits) -> str:
    """What a model is told that it hands over."""
    return ASK.format(most=policy.max_summary_chars)


def with_handoff(schema: JsonSchema, policy: EnvelopeLimits) -> JsonSchema:
    """A form of answers in which the handoff is one more field; what is no object stays as it is."""
    if schema.get("type") != "object":
        return schema
    text: JsonValue = {"type": "string"}
    summary: JsonValue = {"type": "string", "description": f"at most {policy.max_summary_chars} characters"}
    handoff: JsonValue = {
        "type": "object",
        "description": "what the others in your team are told in place of your answer",
        "properties": {
            "status": {"type": "string", "description": "done, blocked or failed"},
            "confidence": {"type": "number", "description": "0 to 100"},
            "risk_level": {"type": "string", "description": "low, medium, high or critical"},
            "summary": summary,
            "needs": {"type": "array", "items": text},
            "next_action": text,
        },
    }
    properties = cast("Mapping[str, JsonValue]", schema.get("properties", {}))
    return {**schema, "properties": {**properties, KEY: handoff}}


def written(text: str, note: HandoffNote) -> str:
    """A text with the handoff below it, as an author writes it."""
    return f"{text}\n\n{FENCE}{KEY}\n{to_json(fields_of(note)).decode()}\n{FENCE}"


def fields_of(note: HandoffNote) -> dict[str, JsonValue]:
    """What an author writes as its handoff."""
    return {name: value for name, value in note.to_json().items() if name in FIELDS}


def extract_handoff(reply: Reply, turn: Turn) -> Reply:
    """Move the handoff out of the text or data of a reply into `reply.handoff`, cut to the limits of the turn."""
    if turn.handoff is None or not reply.messages:
        return reply
    read = _read(reply)
    note = bounded(read.note, read.reply.text, turn.handoff)
    written = envelope_tokens(note) if note.own else 0
    tokens = min(reply.usage.total_tokens, written + sum(map(envelope_tokens, turn.envelopes)))
    return read.reply.changed(handoff=note.changed(tokens=tokens))


def bounded(said: HandoffNote | None, text: str, policy: EnvelopeLimits) -> HandoffNote:
    """What an author said, cut to the policy.

    The text takes the place of a summary that is missing, that says too little, or that is no shorter than the text.
    """
    note, least = said or HandoffNote(), policy.min_summary_chars
    summary = note.summary
    if len(summary) < max(1, least) or least <= len(text) <= len(summary):
        summary = text if len(text) >= least else ALL + text
    return note.changed(
        summary=policy.cut(summary),
        artifacts=tuple(map(policy.cut, note.artifacts[: policy.max_artifacts])),
        needs=tuple(map(policy.cut, note.needs[: policy.max_needs])),
        next_action=policy.cut(note.next_action),
        own=said is not None,
    )


class _Read(NamedTuple):
    reply: Reply
    note: HandoffNote | None


def _read(reply: Reply) -> _Read:
    """Look beside the reply, in its data and in its text, in this order."""
    if reply.handoff is not None:
        return _Read(reply, parse_handoff(cast("Mapping[str, object]", reply.handoff.to_json())))
    match reply.data:
        case {"handoff": dict() as fields, **rest} if "summary" in fields:
            text = to_json(rest).decode() if _is_json(reply.text, reply.data) else reply.text
            return _Read(_saying(reply, text).changed(data=rest), parse_handoff(fields))
        case _:
            found = _block(reply.text)
    if found is None:
        return _Read(reply, None)
    note = parse_handoff(found.fields)
    return _Read(_saying(reply, found.content or note.summary), note)


def _saying(reply: Reply, text: str) -> Reply:
    *before, last = reply.messages
    return reply.changed(messages=(*before, last.changed(content=text)))


class _Opened(NamedTuple):
    """A fence that may open a handoff, and what follows it where that is a whole JSON object, up to its `end`."""

    start: int
    marked: bool
    fields: Mapping[str, object] | None
    end: int


class _Block(NamedTuple):
    content: str
    fields: Mapping[str, object]


def _block(text: str) -> _Block | None:
    """The block that is marked as a handoff, the last one; else a JSON block at the end that can be nothing else."""
    opened = list(_opened(text))
    if marked := [one for one in opened if one.marked]:
        return _marked(text, marked[-1])
    last = opened[-1] if opened else None
    if last is None or last.fields is None or text[last.end :].strip() != FENCE:
        return None
    return _Block(text[: last.start].strip(), last.fields) if NEEDED <= last.fields.keys() <= FIELDS else None


def _opened(text: str) -> Iterator[_Opened]:
    """The last such fences in order; one that stands in the texts of a whole object opens nothing."""
    place, scan = 0, JsonScan(text)
    for found in deque(OPENING.finditer(text), MOST_TRIED):
        if found.start() < place:
            continue
        begun = place = found.end()
        read = scan.at(begun)
        end = read.end if read is not None and isinstance(read.value, dict) else None
        fields = None if end is None else _object(text[begun:end])
        if end is not None and fields is not None:
            place = end
        yield _Opened(found.start(), found[1] is not None, fields, place)


def _marked(text: str, block: _Opened) -> _Block:
    """A marked block. One that can't be read whole is read as far as it goes, and never taken for harmless."""
    left, fields = text[block.end :], block.fields
    if fields is not None:
        inside, fence, after = left.partition(FENCE)
        rest = after if fence else inside
    else:
        partial, rest = _object(left), ""
        if partial is None:
            inside, _, rest = left.partition(FENCE)
            partial = _object(inside) or {}
        said = [risk for word in SAID_RISK.findall(left) if (risk := RISKS.get(word.lower()))]
        fields = {**partial, "risk_level": max(("medium", *said), key=[*RISKS].index)}
    return _Block(f"{text[: block.start].rstrip()}\n{rest.strip()}".strip(), fields)


def _object(text: str) -> Mapping[str, object] | None:
    """The JSON object that a text holds, as far as it goes: a reply may be cut in the middle of it."""
    try:
        found = cast("object", from_json(text.strip(), allow_partial="trailing-strings"))
    except ValueError:
        return None
    return cast("Mapping[str, object]", found) if isinstance(found, dict) else None


def _is_json(text: str, data: JsonValue) -> bool:
    try:
        return cast("JsonValue", from_json(text)) == data
    except ValueError:
        return False


def parse_handoff(fields: Mapping[str, object]) -> HandoffNote:
    """Parse the fields of a handoff; a field that is invalid gets its default.

    A risk level in other words is at least medium.
    """
    risk = _word(fields.get("risk_level"))
    return HandoffNote(
        summary=_text(fields.get("summary")),
        status=STATUSES.get(_word(fields.get("status")), "done"),
        confidence=_percent(fields.get("confidence")),
        risk_level=RISKS.get(risk, "medium") if risk else "low",
        artifacts=_texts(fields.get("artifacts")),
        needs=_texts(fields.get("needs")),
        next_action=_text(fields.get("next_action")) or CONTINUE,
    )


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _word(value: object) -> str:
    return _text(value).lower()


def _texts(value: object) -> tuple[str, ...]:
    listed = cast("list[object]", value) if isinstance(value, list | tuple) else [value]
    return tuple(text for text in map(_text, listed) if text)


def _percent(value: object) -> int:
    """How sure somebody is."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - not a number
        return HandoffNote().confidence
    return round(min(100, max(0, percentage(value))))
