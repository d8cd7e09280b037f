"""What a prompt says besides its task: that little is left of the budget, that the cap of an answer was cut, and how
its author writes a note for the envelope that its team sees in place of the answer.

A note that can't be parsed is derived from the reply itself, so that it never costs a second request and never fails a
turn. The texts for models are part of prompts: changing one changes effect hashes, and recorded runs would no longer
resume.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from math import inf
from typing import NamedTuple, cast, get_args

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from teamwright.agents.prices import rate_of
from teamwright.values.call_limits import text_size
from teamwright.values.limits import (
    AMPLE_OUTPUT,
    BYTES_PER_MESSAGE,
    CHARACTERS_PER_TOKEN,
    USEFUL_OUTPUT,
    Amounts,
    scaled_output,
)
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.specs.models import AnyModel
from teamwright.values.turns.messages import (
    CONTINUE,
    EnvelopeLimits,
    EnvelopeNote,
    EnvelopeStatus,
    RiskLevel,
    envelope_tokens,
    percentage,
)
from teamwright.values.turns.turn import Reply, Turn
from teamwright.values.typed_data import JsonScan
from teamwright.values.usage_and_prices import Rate, picodollars

KEY = "envelope"
FENCE = "```"
OPENING_FENCE = re.compile(rf"{FENCE}(?:({KEY})|(?:json)?(?=\s*\{{))\s*")
RISK_IN_TEXT = re.compile(r"risk[ _]?level\W+(\w+)", re.IGNORECASE)
MOST_FENCES = 100
"""Fences that are tried, so that a text with very many of them does not block the run."""
FIELDS = frozenset(("status", "confidence", "risk_level", "summary", "artifacts", "needs", "next_action"))
REQUIRED_FIELDS = frozenset(("summary", "status"))
STATUSES: Mapping[str, EnvelopeStatus] = {one: one for one in get_args(EnvelopeStatus)}
RISKS: Mapping[str, RiskLevel] = {one: one for one in get_args(RiskLevel)}
WHOLE_ANSWER = "The whole answer: "
"""The prefix of a summary that repeats an answer shorter than the minimum."""

INSTRUCTIONS = """\
Your team sees a short envelope in place of your answer. Write it below the answer:
```envelope
{{"status": "done, blocked or failed", "confidence": 0 to 100, "risk_level": "low, medium, high or critical", \
"summary": "what the others must know, at most {most} characters", "needs": [], "next_action": ""}}
```"""


def note_instructions(policy: EnvelopeLimits) -> str:
    """Return the instructions that ask a model for a note."""
    return INSTRUCTIONS.format(most=policy.max_summary_chars)


def schema_with_note(schema: JsonSchema, policy: EnvelopeLimits) -> JsonSchema:
    """Add the note as a field to an answer's schema; return a schema of another type unchanged."""
    if schema.get("type") != "object":
        return schema
    text: JsonValue = {"type": "string"}
    summary: JsonValue = {"type": "string", "description": f"at most {policy.max_summary_chars} characters"}
    note: JsonValue = {
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
    return {**schema, "properties": {**properties, KEY: note}}


def with_note_block(text: str, note: EnvelopeNote) -> str:
    """Append the note to a text, in the form in which a model writes it."""
    return f"{text}\n\n{FENCE}{KEY}\n{to_json(note_fields(note)).decode()}\n{FENCE}"


def note_fields(note: EnvelopeNote) -> dict[str, JsonValue]:
    """The fields that an author writes in a note."""
    return {name: value for name, value in note.to_json().items() if name in FIELDS}


def extract_note(reply: Reply, turn: Turn) -> Reply:
    """Move the note out of the reply's content to its `envelope_note` field, cut to the turn's limits."""
    if turn.envelope_limits is None or not reply.messages:
        return reply
    extracted = _extract(reply)
    note = bounded_note(extracted.note, extracted.reply.text, turn.envelope_limits)
    own_tokens = envelope_tokens(note) if note.own else 0
    tokens = min(reply.usage.total_tokens, own_tokens + sum(map(envelope_tokens, turn.envelopes)))
    return extracted.reply.changed(envelope_note=note.changed(tokens=tokens))


def bounded_note(declared: EnvelopeNote | None, text: str, policy: EnvelopeLimits) -> EnvelopeNote:
    """Cut the author's note to the limits.

    The reply's text replaces a summary that is missing, shorter than the minimum, or not shorter than the text.
    """
    note, least = declared or EnvelopeNote(), policy.min_summary_chars
    summary = note.summary
    if len(summary) < max(1, least) or least <= len(text) <= len(summary):
        summary = text if len(text) >= least else WHOLE_ANSWER + text
    return note.changed(
        summary=policy.cut(summary),
        artifacts=tuple(map(policy.cut, note.artifacts[: policy.max_artifacts])),
        needs=tuple(map(policy.cut, note.needs[: policy.max_needs])),
        next_action=policy.cut(note.next_action),
        own=declared is not None,
    )


class _Extracted(NamedTuple):
    reply: Reply
    note: EnvelopeNote | None


def _extract(reply: Reply) -> _Extracted:
    """Find the note in the reply's `envelope_note` field, its data or its text, in this order."""
    if reply.envelope_note is not None:
        return _Extracted(reply, parse_note(cast("Mapping[str, object]", reply.envelope_note.to_json())))
    match reply.data:
        case {"envelope": dict() as fields, **rest} if "summary" in fields:
            text = to_json(rest).decode() if _is_json(reply.text, reply.data) else reply.text
            return _Extracted(_with_text(reply, text).changed(data=rest), parse_note(fields))
        case _:
            found = _find_block(reply.text)
    if found is None:
        return _Extracted(reply, None)
    note = parse_note(found.fields)
    return _Extracted(_with_text(reply, found.content or note.summary), note)


def _with_text(reply: Reply, text: str) -> Reply:
    *before, last = reply.messages
    return reply.changed(messages=(*before, last.changed(content=text)))


class _Candidate(NamedTuple):
    """A fence that may open a note, and the whole JSON object after it, if there is one, up to `end`."""

    start: int
    marked: bool
    fields: Mapping[str, object] | None
    end: int


class _Block(NamedTuple):
    content: str
    fields: Mapping[str, object]


def _find_block(text: str) -> _Block | None:
    """Return the last block marked as a note; else a JSON block at the end that has exactly its fields."""
    opened = list(_candidates(text))
    if marked := [one for one in opened if one.marked]:
        return _parse_marked(text, marked[-1])
    last = opened[-1] if opened else None
    if last is None or last.fields is None or text[last.end :].strip() != FENCE:
        return None
    return _Block(text[: last.start].strip(), last.fields) if REQUIRED_FIELDS <= last.fields.keys() <= FIELDS else None


def _candidates(text: str) -> Iterator[_Candidate]:
    """Yield the last fences in order; a fence inside the strings of a whole object does not count."""
    place, scan = 0, JsonScan(text)
    for found in deque(OPENING_FENCE.finditer(text), MOST_FENCES):
        if found.start() < place:
            continue
        begun = place = found.end()
        read = scan.at(begun)
        end = read.end if read is not None and isinstance(read.value, dict) else None
        fields = None if end is None else _parse_object(text[begun:end])
        if end is not None and fields is not None:
            place = end
        yield _Candidate(found.start(), found[1] is not None, fields, place)


def _parse_marked(text: str, block: _Candidate) -> _Block:
    """Parse a marked block; one that is not whole is parsed as far as possible, with at least medium risk."""
    left, fields = text[block.end :], block.fields
    if fields is not None:
        inside, fence, after = left.partition(FENCE)
        rest = after if fence else inside
    else:
        partial, rest = _parse_object(left), ""
        if partial is None:
            inside, _, rest = left.partition(FENCE)
            partial = _parse_object(inside) or {}
        said = [risk for word in RISK_IN_TEXT.findall(left) if (risk := RISKS.get(word.lower()))]
        fields = {**partial, "risk_level": max(("medium", *said), key=[*RISKS].index)}
    return _Block(f"{text[: block.start].rstrip()}\n{rest.strip()}".strip(), fields)


def _parse_object(text: str) -> Mapping[str, object] | None:
    """Parse a text as a JSON object, which may be incomplete: a reply may be cut in the middle of it."""
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


def parse_note(fields: Mapping[str, object]) -> EnvelopeNote:
    """Parse the fields of a note one by one; an invalid field gets its default.

    An unknown risk level counts as medium.
    """
    risk = _word(fields.get("risk_level"))
    return EnvelopeNote(
        summary=_text(fields.get("summary")),
        status=STATUSES.get(_word(fields.get("status")), "done"),
        confidence=_parse_confidence(fields.get("confidence")),
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


def _parse_confidence(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - not a number
        return EnvelopeNote().confidence
    return round(min(100, max(0, percentage(value))))


REQUESTS = 2
"""The budget is low when it does not cover this many more requests like the next one."""
SECONDS = 30.0
"""The budget is low when fewer seconds remain."""


def low_budget_notice(turn: Turn, model: AnyModel, instructions: str, cap: int | None) -> str:
    """Return a line with the remaining budget if that is low, else an empty string; the same on a replay."""
    left = turn.left
    if left is None:
        return ""
    likely = (text_size(turn.prompt) + text_size(instructions)) // CHARACTERS_PER_TOKEN
    rate = None if left.usd is None else rate_of(model, likely)
    # Without a cap of its own, a request is taken to need what it is refused for: less under a small limit.
    output = min(cap, AMPLE_OUTPUT) if cap else scaled_output(USEFUL_OUTPUT, _output_left(left, rate))
    if not _is_low(left, rate, likely, output):
        return ""
    line = f"Little is left of the budget: {_amounts_text(left)}. Answer briefly and begin nothing that needs more."
    # If the budget just covers an answer, the notice must not use it up.
    room = None if left.tokens is None else left.tokens - likely - len(line) - BYTES_PER_MESSAGE
    return line if room is None or room >= min(output, USEFUL_OUTPUT) else ""


def output_cut_notice(max_output: int) -> str:
    """Return the line that states the output cap of an answer whose cap was cut."""
    return f"(No more is left of the budget than {max_output} tokens for this answer.)"


CUT_NOTICE_TOKENS = len(output_cut_notice(999_999)) + BYTES_PER_MESSAGE
"""Upper bound on the tokens that this line adds to a prompt."""


def _output_left(left: Amounts, rate: Rate | None) -> float:
    """Return the output tokens that the tighter of the remaining tokens and money pays for."""
    tokens = inf if left.tokens is None else left.tokens
    return (
        tokens
        if left.usd is None or rate is None or not rate.output
        else min(tokens, picodollars(left.usd) / rate.output)
    )


def _is_low(left: Amounts, rate: Rate | None, prompt: int, output: int) -> bool:
    if left.tokens is not None and left.tokens < REQUESTS * (prompt + output):
        return True
    if left.calls is not None and left.calls < REQUESTS:
        return True
    if left.seconds is not None and left.seconds < SECONDS:
        return True
    return left.usd is not None and rate is not None and picodollars(left.usd) < REQUESTS * rate.cost(prompt, output)


def _amounts_text(left: Amounts) -> str:
    parts = [
        f"{left.tokens} tokens" if left.tokens is not None else "",
        f"${left.usd:.4g}" if left.usd is not None else "",
        f"{left.calls} call{'' if left.calls == 1 else 's'}" if left.calls is not None else "",
        f"{left.seconds:.0f} seconds" if left.seconds is not None else "",
    ]
    return ", ".join(filter(None, parts))
