"""A response that arrives piece by piece, in the format of chat completions: server-sent events with JSON.

The work is linear in the size of the body, however small its pieces are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast

import httpx2
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPartDelta,
)
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.usage import RequestUsage
from pydantic_core import from_json
from typing_extensions import override

from teamwright.agents.clients.chat_request import SYSTEM, Json
from teamwright.agents.clients.chat_response import (
    FINISH_REASONS,
    ResponseOrigin,
    arguments_of,
    choice_details,
    content_text,
    details_of,
    logprobs_of,
    malformed,
    raise_reported,
    read_response,
    reading_errors,
    reasoning_of,
    text_of,
    tool_call,
    unreadable,
    usage_of,
)

BEFORE = b" \t\r\n\xef\xbb\xbf"
"""What may come before an event or a document: blanks, by which servers keep a connection, and a byte order mark."""
DOCUMENTS = (b"{", b"[", b"<")
"""The first bytes of JSON and of HTML. No event begins so."""
FIELDS = (b"data:", b"error:", b"event:")


class EventReader:
    """Collects the pieces of a body, which is a stream of events or one document.

    Some servers answer a request for a stream with a document, and not all name its type.
    """

    def __init__(self) -> None:
        self.is_document = False
        self._has_begun = self._ends_in_cr = False
        self._rest = bytearray()
        self._lines: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Add a piece; yield the data of each event that it completes."""
        if not self._has_begun:
            piece = self._begin(piece)
        if self.is_document:
            self._rest += piece
            return
        if self._ends_in_cr:
            piece = piece.removeprefix(b"\n")  # the other half of a line end
        self._ends_in_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in piece:
            self._rest += piece
            return
        if self._rest:
            piece = bytes(self._rest) + piece
            self._rest.clear()
        *lines, rest = piece.split(b"\n")
        self._rest += rest
        for line in lines:
            if line.startswith(FIELDS):
                self._lines.append(line)
            elif not line and self._lines:
                yield self._event()

    def _begin(self, piece: bytes) -> bytes:
        piece = piece.lstrip(BEFORE)
        self._has_begun, self.is_document = bool(piece), piece.startswith(DOCUMENTS)
        return piece

    def end(self) -> bytes:
        """Return the document, or the data of an event whose blank line a server left out."""
        rest = bytes(self._rest)
        if self.is_document:
            return rest
        if rest.startswith(FIELDS):
            self._lines.append(rest)
        return self._event()

    def _event(self) -> bytes:
        """Return the data of an event. Servers mark an error by the name of the event, llama.cpp by that of a line."""
        lines, self._lines = self._lines, []
        if len(lines) == 1 and lines[0].startswith(b"data:"):
            return lines[0][5:].strip()
        data = b"\n".join(line.partition(b":")[2].strip() for line in lines if not line.startswith(b"event:"))
        is_error = any(line.startswith(b"error:") or line.replace(b" ", b"") == b"event:error" for line in lines)
        return b'{"error":' + data + b"}" if data and is_error else data


DONE = b"[DONE]"


@dataclass(slots=True)
class GrowingPart:
    """A part of a response while it arrives. `name` is the tool of a call, or the field of what was thought."""

    kind: Literal["text", "thinking", "call"]
    name: str = ""
    pieces: list[str] = field(default_factory=list[str])
    call: Json = field(default_factory=dict[str, Any])

    def part(self) -> ModelResponsePart:
        """Return the part as far as it has arrived."""
        content = "".join(self.pieces)
        if self.kind == "text":
            return TextPart(content)
        if self.kind == "thinking":
            return ThinkingPart(content, id=self.name, provider_name=SYSTEM)
        return tool_call(self.name, content, self.call)


class ChatStream(StreamedResponse):
    """The stream of one response; `get` returns what has arrived."""

    def __init__(self, parameters: ModelRequestParameters, response: httpx2.Response, origin: ResponseOrigin) -> None:
        super().__init__(parameters)
        self._response, self._origin = response, origin
        self._model_name, self._timestamp = origin.model, datetime.now().astimezone()
        self._parts: list[GrowingPart] = []
        self._calls: dict[int, int] = {}
        self._last_call: int | None = None
        self._whole: ModelResponse | None = None
        self._details: Json = {}
        self._logprobs: list[Json] = []
        self._refusal, self._has_reason = "", False

    @property
    @override
    def model_name(self) -> str:
        """The name of the model, as the server gives it."""
        return self._model_name

    @property
    @override
    def provider_name(self) -> str:
        return SYSTEM

    @property
    @override
    def provider_url(self) -> str:
        return self._origin.url

    @property
    @override
    def timestamp(self) -> datetime:
        return self._timestamp

    @property
    @override
    def usage(self) -> RequestUsage:
        return self._usage

    @override
    async def close_stream(self) -> None:
        await self._response.aclose()

    @override
    def __aiter__(self) -> AsyncIterator[ModelResponseStreamEvent]:
        """Iterate over the pieces alone: the events that other loops need are not made."""
        if self._event_iterator is None:
            self._event_iterator = self._get_event_iterator()
        return self._event_iterator

    @override
    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        reader = EventReader()
        with reading_errors(self._origin.model):
            async for piece in self._response.aiter_raw():
                for data in reader.feed(piece):
                    if data == DONE:
                        return
                    for event in self._read(data):
                        yield event
        last = reader.end()
        for event in self._read_whole(last) if reader.is_document else self._read(last):
            yield event

    def _read_whole(self, content: bytes) -> Iterator[ModelResponseStreamEvent]:
        self._whole = read_response(content, self._origin)
        self._usage = self._whole.usage
        for index, part in enumerate(self._whole.parts):
            yield PartStartEvent(index=index, part=part)

    def _read(self, data: bytes) -> Iterator[ModelResponseStreamEvent]:
        if not data or data == DONE:
            return
        try:
            chunk: object = from_json(data)
        except ValueError as error:
            raise unreadable(self._origin.model, error) from error
        if not isinstance(chunk, dict):
            raise malformed("a chunk of its stream")
        chunk = cast("Json", chunk)
        raise_reported(self._origin.model, chunk)
        if (reported := chunk.get("usage")) is not None:  # some servers report with every chunk, each time all of it
            self._usage, self._usage_received = usage_of(reported), True
        if not self._details or "service_tier" in chunk or "moderation" in chunk:
            self._begin(chunk)
        if choices := chunk.get("choices"):  # the last chunk has usage alone
            choice = cast("list[object]", choices)[0] if isinstance(choices, list) else None
            if not isinstance(choice, dict):
                raise malformed("the choices of its stream")
            yield from self._read_choice(cast("Json", choice))

    def _begin(self, chunk: Json) -> None:
        self._details |= details_of(chunk)
        self._model_name = text_of(chunk.get("model")) or self._model_name
        self.provider_response_id = text_of(chunk.get("id")) or self.provider_response_id

    def _read_choice(self, choice: Json) -> Iterator[ModelResponseStreamEvent]:
        raise_reported(self._origin.model, choice)
        if reason := choice.get("finish_reason"):
            self.finish_reason, self._has_reason = FINISH_REASONS.get(text_of(reason)), True
            self._details |= choice_details(choice)
        if choice.get("logprobs"):
            self._logprobs += logprobs_of(choice)
        delta: object = choice.get("delta")
        if not isinstance(delta, dict):
            return
        delta = cast("Json", delta)
        self._refusal += text_of(delta.get("refusal"))
        name, thought = reasoning_of(delta)
        if thought:
            yield self._add(thought, "thinking", name)
        if content := content_text(delta.get("content")):
            yield self._add(content, "text")
        if calls := delta.get("tool_calls"):
            yield from self._add_calls(calls)

    def _add(self, text: str, kind: Literal["text", "thinking"], name: str = "") -> ModelResponseStreamEvent:
        """Add a piece of text to the last part if it is of this kind, else to a new one."""
        last = self._parts[-1] if self._parts else None
        if last is None or last.kind != kind or last.name != name:
            self._parts.append(last := GrowingPart(kind, name, [text]))
            return PartStartEvent(index=len(self._parts) - 1, part=last.part())
        last.pieces.append(text)
        delta = TextPartDelta(text) if kind == "text" else ThinkingPartDelta(content_delta=text)
        return PartDeltaEvent(index=len(self._parts) - 1, delta=delta)

    def _add_calls(self, calls: object) -> Iterator[ModelResponseStreamEvent]:
        if not isinstance(calls, list):
            raise malformed("the tool calls of its stream")
        for call in cast("list[object]", calls):
            if not isinstance(call, dict):
                raise malformed("the tool calls of its stream")
            event = self._add_call(cast("Json", call))
            if event is not None:
                yield event

    def _add_call(self, call: Json) -> ModelResponseStreamEvent | None:
        """Add a piece of a call. It is announced once its tool is known."""
        function: object = call.get("function")
        function = cast("Json", function) if isinstance(function, dict) else {}
        name, arguments = text_of(function.get("name")), arguments_of(function.get("arguments"))
        place = self._place_of(call, name, arguments)
        growing = self._parts[place]
        was_named = bool(growing.name)
        if not was_named or (name != growing.name and not growing.pieces):  # some servers repeat it with every piece
            growing.name += name
        if arguments:
            growing.pieces.append(arguments)
        growing.call |= {key: call[key] for key in ("id", "extra_content") if call.get(key)}
        if was_named:
            return PartDeltaEvent(index=place, delta=ToolCallPartDelta(args_delta=arguments)) if arguments else None
        return PartStartEvent(index=place, part=growing.part()) if growing.name else None

    def _place_of(self, call: Json, name: str, arguments: str) -> int:
        """Return the place of the call that a piece belongs to: by its index, else the last one, or a new one."""
        index = call.get("index")
        place = self._calls.get(index) if isinstance(index, int) else self._last_call
        if place is None or _begins_another(self._parts[place], text_of(call.get("id")), name, arguments):
            place = len(self._parts)
            self._parts.append(GrowingPart("call"))
        if isinstance(index, int):
            self._calls[index] = place
        self._last_call = place
        return place

    @override
    def get(self) -> ModelResponse:
        """Return the response as far as it has arrived."""
        if self._whole is not None:
            return self._whole
        details = {**self._details}
        if self._refusal:
            details.pop("finish_reason", None)
            details["refusal"] = self._refusal
        if self._logprobs:
            details["logprobs"] = self._logprobs
        reason = self.finish_reason if self._has_reason else "stop"  # some servers send none
        return ModelResponse(
            parts=[] if self._refusal else [one.part() for one in self._parts if one.name or one.pieces],
            usage=self._usage if self._usage_received else RequestUsage(unmeasured_requests=1),
            model_name=self._model_name,
            timestamp=self._timestamp,
            provider_details=details or None,
            provider_response_id=self.provider_response_id,
            provider_name=SYSTEM,
            provider_url=self._origin.url,
            finish_reason="content_filter" if self._refusal else reason,
        )


def _begins_another(growing: GrowingPart, call_id: str, name: str, arguments: str) -> bool:
    """Whether a piece begins another call, although its index is that of this one, as with Gemini, or it has none.

    It does if its id differs, or if both have none and it names a tool again after whole arguments.
    """
    known = text_of(growing.call.get("id"))
    if call_id and known:
        return call_id != known
    if not name or not growing.name or not growing.pieces:
        return False
    return name != growing.name or (growing.pieces[-1].endswith("}") and arguments.startswith("{"))
