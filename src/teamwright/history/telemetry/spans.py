"""Spans of a run: values, ids that are hashes of the run's id and of keys, what is open of a run, and, only where it
is asked for and masked as everywhere else, what was said.

A call alone has usage, cost and a model. What is around it has totals under names of our own, since receivers add up
what calls have used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from json import dumps
from typing import TYPE_CHECKING, Literal

from teamwright.history.recorded_asks import RecordedBodies, Texts, bodies_of, texts_of
from teamwright.history.telemetry import conventions as names
from teamwright.values.events.agent import AgentAsked, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.run_keys import nearest_key, parent_keys
from teamwright.values.text.display import cut
from teamwright.values.text.secrets import mask_text, mask_value
from teamwright.values.usage_and_prices import NOTHING, Usage
from teamwright.values.value import Record

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.values.events.agent import Body


AttributeValue = str | int | float | bool | tuple[str, ...]
Attributes = dict[str, AttributeValue]
LONGEST_NAME, LONGEST_ERROR = 256, 1000


class SpanLink(Record, frozen=True):
    """A link to a span, maybe of another trace: `to` says what it is, as in `Origin.how`, or the part before."""

    trace_id: bytes
    span_id: bytes
    to: str


class SpanEvent(Record, frozen=True):
    """Something that happened within a span."""

    name: str
    time: float
    attributes: Attributes = {}


class Span(Record, frozen=True):
    """A part of a run that has ended. `texts` are the attributes that its content has, and the events that have it."""

    trace_id: bytes
    span_id: bytes
    name: str
    begin: float
    end: float
    parent: bytes = b""
    kind: Literal["internal", "client"] = "internal"
    attributes: Attributes = {}
    links: tuple[SpanLink, ...] = ()
    notes: tuple[SpanEvent, ...] = ()
    error: str | None = None
    texts: tuple[tuple[str, Event], ...] = ()


def trace_id(run_id: str) -> bytes:
    """Return the id of a run's trace."""
    return blake2b(run_id.encode(errors="surrogatepass"), digest_size=16, person=b"teamwright-trace").digest()


def span_id(run_id: str, kind: str, key: str = "", number: int = 1) -> bytes:
    """Return the id of the span of a drive, an ask, a call, a question or an evaluation."""
    text = f"{run_id}\0{kind}\0{key}\0{number}".encode(errors="surrogatepass")
    return blake2b(text, digest_size=8, person=b"teamwright-span").digest()


@dataclass(slots=True)
class OpenSpan:
    """A span that has begun. `number` is that of its part, where drives divide it, or of the attempt at a call."""

    kind: Literal["drive", "ask", "call", "question", "evaluation"]
    key: str
    name: str
    begin: float
    parent: bytes
    attributes: Attributes
    number: int = 1
    usage: Usage = NOTHING
    links: tuple[SpanLink, ...] = ()
    notes: list[SpanEvent] = field(default_factory=list[SpanEvent])
    texts: tuple[tuple[str, Event], ...] = ()
    client: bool = False


class OpenSpans:
    """The drive and the asks of a run that are open, and the spans that have ended.

    While it is `muted`, nothing is added to these: a fork takes over what is in the trace of its source.
    """

    def __init__(self) -> None:
        self.run_id, self.conversation = "", ""
        self.trace = b""
        self.finished: list[Span] = []
        self.count = 0
        self.drive: OpenSpan | None = None
        self.asks: dict[str, OpenSpan] = {}
        self.muted = False

    def around(self, scope: str) -> OpenSpan | None:
        """The innermost open span around a scope: an ask, or the drive."""
        return self.asks.get(nearest_key(scope, self.asks)) or self.drive

    def parent(self, scope: str) -> bytes:
        """The id of the span around a scope."""
        around = self.around(scope)
        return b"" if around is None else self.id(around)

    def id(self, one: OpenSpan) -> bytes:
        return span_id(self.run_id, one.kind, one.key, one.number)

    def note(self, event: Event) -> None:
        """Add an event to the span around it."""
        if not self.muted and (around := self.around(event.scope)) is not None:
            around.notes.append(SpanEvent(name=event.kind, time=event.time, attributes={names.KEY: _clean(event.key)}))

    def use(self, call: OpenSpan, usage: Usage) -> None:
        """Put the usage on the call, which is a chat if it has any, and add it to the totals around it."""
        if usage is NOTHING or not (usage.total_tokens or usage.requests or usage.usd):
            return
        if not call.client:
            call.name, call.client = f"{names.CHAT}{call.name.removeprefix('call')}", True
            call.attributes[names.OPERATION] = names.CHAT
        given: dict[str, AttributeValue | None] = {
            names.INPUT_TOKENS: usage.input_tokens,
            names.OUTPUT_TOKENS: usage.output_tokens,
            names.CACHED_TOKENS: usage.cached_tokens or None,
            names.REASONING_TOKENS: usage.reasoning_tokens or None,
            names.COST: usage.usd,
        }
        call.attributes |= {name: value for name, value in given.items() if value is not None}
        for key in parent_keys(call.key):
            if (around := self.asks.get(key)) is not None:
                around.usage += usage
        if self.drive is not None:
            self.drive.usage += usage

    def close(self, one: OpenSpan | None, time: float, *, error: str | None = None, message: str | None = None) -> None:
        """Add a span to those that have ended."""
        if one is None or self.muted:
            return
        attributes: Attributes = {names.RUN: self.run_id, names.KEY: one.key}
        if self.conversation:
            attributes[names.CONVERSATION] = self.conversation
        attributes |= one.attributes
        if one.usage is not NOTHING:
            attributes |= _totals(one.usage)
        if error is not None:
            attributes[names.ERROR] = error
        cancelled = error in (None, "cancelled")
        self.count += 1
        self.finished.append(
            Span(
                trace_id=self.trace,
                span_id=self.id(one),
                name=_clean_text(one.name),
                begin=one.begin,
                end=max(one.begin, time),
                parent=one.parent,
                kind="client" if one.client else "internal",
                attributes={name: _clean(value) for name, value in attributes.items()},
                links=one.links,
                notes=tuple(one.notes),
                error=None if cancelled else cut(mask_text(message or str(error)), LONGEST_ERROR),
                texts=one.texts,
            )
        )


def _totals(usage: Usage) -> Mapping[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        names.TOTAL_REQUESTS: usage.requests,
        names.TOTAL_INPUT: usage.input_tokens,
        names.TOTAL_OUTPUT: usage.output_tokens,
        names.TOTAL_TOKENS: usage.total_tokens,
    }
    return found if usage.usd is None else {**found, names.TOTAL_USD: usage.usd}


def _clean(value: AttributeValue) -> AttributeValue:
    return _clean_text(value) if isinstance(value, str) else value


@lru_cache(maxsize=4096)
def _clean_text(text: str) -> str:
    """Mask what looks like a secret, and bound the length: models choose names of tools, and users those of models."""
    return cut(mask_text(text), LONGEST_NAME)


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
