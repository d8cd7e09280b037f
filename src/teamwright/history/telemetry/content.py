"""What was said in a run, as attributes of its spans: only where it is asked for, and masked as everywhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json import dumps
from typing import TYPE_CHECKING

from teamwright.history.event_bodies import Texts, bodies_of, texts_of
from teamwright.history.record.asks import RecordedBodies
from teamwright.history.telemetry import conventions as names
from teamwright.history.telemetry.spans import Span
from teamwright.values.events.agent import AgentAsked, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.text.display import cut
from teamwright.values.text.secret_patterns import mask_value

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.values.events.agent import Body

LONGEST_TEXT = 32 * 1024
"""The most characters of one text; receivers refuse spans that are too large."""


def bodies_needed(spans: Iterable[Span]) -> set[Body]:
    """Return the hashes of the texts of spans."""
    return {body for span in spans for _, event in span.texts for body in bodies_of(event)}


def with_content(spans: Sequence[Span], bodies: RecordedBodies) -> list[Span]:
    """Return the spans with what was said in them."""
    return [_with_texts(span, bodies) if span.texts else span for span in spans]


def _with_texts(span: Span, bodies: RecordedBodies) -> Span:
    found = {name: text for name, event in span.texts if (text := _text_of(name, event, bodies))}
    return span.changed(attributes={**span.attributes, **found})


def _text_of(name: str, event: Event, bodies: RecordedBodies) -> str:
    fact = event.fact
    if isinstance(fact, TeamEvaluationResult):
        return str(_shown(fact.verdict.feedback))
    texts = texts_of(event, bodies)
    match name:
        case names.TOOL_ARGUMENTS:
            return _json(texts.get("arguments"))
        case names.TOOL_RESULT:
            result = texts.get("result")
            return str(_shown(result)) if isinstance(result, str) else _json(result)
        case _ if isinstance(fact, AgentAsked):
            return _json([_message("user", [_part(texts.get("task"))])])
        case _ if isinstance(fact, AgentReturned):
            return _json([{**_message("assistant", _response_parts(texts)), "finish_reason": _finish(fact, texts)}])
        case _:
            said = texts.get("messages")
            messages = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
            return _json([_message("assistant", [_part(one.get("content"))]) for one in messages])


def _response_parts(texts: Texts) -> list[JsonValue]:
    parts: list[JsonValue] = []
    if thinking := texts.get("thinking"):
        parts.append({"type": "reasoning", "content": thinking})
    if response := texts.get("response"):
        parts.append(_part(response))
    calls = texts.get("calls")
    made = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    parts += [{"type": "tool_call", "name": one.get("tool"), "arguments": one.get("arguments")} for one in made]
    return parts


def _finish(fact: AgentReturned, texts: Texts) -> str:
    if fact.truncated:
        return "length"
    return "tool_call" if texts.get("calls") else "stop"


def _message(role: str, parts: list[JsonValue]) -> dict[str, JsonValue]:
    return {"role": role, "parts": parts}


def _part(content: JsonValue) -> dict[str, JsonValue]:
    return {"type": "text", "content": content if isinstance(content, str) else dumps(content, ensure_ascii=False)}


def _json(value: JsonValue) -> str:
    return "" if value is None else dumps(_shown(value), ensure_ascii=False)


def _shown(value: JsonValue) -> JsonValue:
    return _cut(mask_value(value))


def _cut(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return cut(value, LONGEST_TEXT)
        case list():
            return [_cut(one) for one in value]
        case dict():
            return {name: _cut(one) for name, one in value.items()}
        case _:
            return value
