"""Replies of models in the wire formats of OpenAI (chat completions and responses), Anthropic and Google.

`whole` is the body of a reply, `events` are those of the same reply as a stream. Only the formats are here: what a
reply says is up to the test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Api = Literal["chat", "responses", "messages", "gemini"]
"""OpenAI's chat completions and responses, Anthropic's messages, and Google's generateContent."""
Json = dict[str, Any]


@dataclass(frozen=True)
class WireCall:
    """A tool call of a model."""

    name: str
    args: Mapping[str, object] = field(default_factory=dict[str, object])
    id: str = "call_1"


@dataclass(frozen=True)
class WireReply:
    """A reply of a model; `input_tokens` include the cached ones, `output_tokens` those of thinking."""

    text: str = ""
    thinking: str = ""
    calls: tuple[WireCall, ...] = ()
    stop: Literal["stop", "length", "refusal"] = "stop"
    input_tokens: int = 30
    output_tokens: int = 12
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True)
class WireError:
    """An HTTP error."""

    status: int
    message: str = "scripted failure"


def error_body(api: Api, error: WireError) -> Json:
    """The body of an error."""
    match api:
        case "chat" | "responses":
            return {"error": {"message": error.message, "type": "scripted", "code": None}}
        case "messages":
            return {"type": "error", "error": {"type": "scripted_error", "message": error.message}}
        case "gemini":
            return {"error": {"code": error.status, "message": error.message, "status": "SCRIPTED"}}


def whole(api: Api, reply: WireReply, model: str) -> Json:
    """The body of a reply."""
    match api:
        case "chat":
            return _chat(reply, model)
        case "responses":
            return _response(reply, model, _output_items(reply))
        case "messages":
            return _message(reply, model, [block for block, _ in _blocks(reply)], _stop_reason(reply))
        case "gemini":
            return _gemini(_gemini_parts(reply), reply, model)


def events(api: Api, reply: WireReply, model: str) -> Iterator[bytes]:
    """The events of a reply that is streamed."""
    match api:
        case "chat":
            yield from (_data(one) for one in _chat_chunks(reply, model))
            yield b"data: [DONE]\n\n"
        case "responses":
            for number, one in enumerate(_response_events(reply, model)):
                yield _named({**one, "sequence_number": number})
        case "messages":
            yield from (_named(one) for one in _message_events(reply, model))
        case "gemini":
            *before, last = _gemini_parts(reply) or [{"text": ""}]
            yield from (_data(_gemini([part], None, model)) for part in before)
            yield _data(_gemini([last], reply, model))


def _data(value: Json) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _named(value: Json) -> bytes:
    return f"event: {value['type']}\n".encode() + _data(value)


def _pieces(text: str) -> list[str]:
    """A text in pieces of a few characters, as a stream sends it."""
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _chat_usage(reply: WireReply) -> Json:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
    }


def _finish_reason(reply: WireReply) -> str:
    ended = {"length": "length", "refusal": "content_filter"}
    return ended.get(reply.stop) or ("tool_calls" if reply.calls else "stop")


def _chat_calls(reply: WireReply) -> list[Json]:
    return [
        {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": json.dumps(one.args)}}
        for one in reply.calls
    ]


def _chat(reply: WireReply, model: str) -> Json:
    message: Json = {"role": "assistant", "content": reply.text or None}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    if reply.calls:
        message["tool_calls"] = _chat_calls(reply)
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply), "logprobs": None}
    frame: Json = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": model}
    return {**frame, "choices": [choice], "usage": _chat_usage(reply)}


def _chat_chunks(reply: WireReply, model: str) -> Iterator[Json]:
    frame: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": model}

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    yield from (chunk({"reasoning_content": piece}) for piece in _pieces(reply.thinking))
    yield from (chunk({"content": piece}) for piece in _pieces(reply.text))
    for index, call in enumerate(_chat_calls(reply)):
        arguments = call["function"]["arguments"]
        yield chunk({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
        for piece in _pieces(arguments):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _finish_reason(reply))
    yield {**frame, "choices": [], "usage": _chat_usage(reply)}


def _output_items(reply: WireReply) -> list[Json]:
    items: list[Json] = []
    if reply.thinking:
        summary = [{"type": "summary_text", "text": reply.thinking}]
        items.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": "sealed"})
    if reply.stop == "refusal":
        refusal = [{"type": "refusal", "refusal": reply.text}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": refusal})
    elif reply.text:
        text = [{"type": "output_text", "text": reply.text, "annotations": []}]
        items.append({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": text})
    for number, one in enumerate(reply.calls, 1):
        call = {"type": "function_call", "id": f"fc_{number}", "call_id": one.id, "name": one.name}
        items.append({**call, "arguments": json.dumps(one.args), "status": "completed"})
    return items


def _response(reply: WireReply, model: str, output: list[Json], status: str | None = None) -> Json:
    cut = reply.stop == "length"
    body: Json = {
        "id": "resp_1", "object": "response", "created_at": 1_790_000_000, "model": model, "output": output,
        "status": status or ("incomplete" if cut else "completed"), "error": None, "instructions": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut and status is None else None, "metadata": {},
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
    }  # fmt: skip
    if status is None:
        body["usage"] = {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_tokens},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        }
    return body


def _response_events(reply: WireReply, model: str) -> Iterator[Json]:
    yield {"type": "response.created", "response": _response(reply, model, [], "in_progress")}
    items = _output_items(reply)
    for index, item in enumerate(items):
        at: Json = {"output_index": index, "item_id": item["id"]}
        match item["type"]:
            case "reasoning":
                yield {"type": "response.output_item.added", **at, "item": {**item, "summary": []}}
                part = {"type": "summary_text", "text": ""}
                yield {"type": "response.reasoning_summary_part.added", **at, "summary_index": 0, "part": part}
                for piece in _pieces(reply.thinking):
                    delta = {"summary_index": 0, "delta": piece}
                    yield {"type": "response.reasoning_summary_text.delta", **at, **delta}
            case "message":
                (content,) = item["content"]
                kind = "refusal" if content["type"] == "refusal" else "output_text"
                yield {"type": "response.output_item.added", **at, "item": {**item, "content": []}}
                empty = {**content, ("refusal" if kind == "refusal" else "text"): ""}
                yield {"type": "response.content_part.added", **at, "content_index": 0, "part": empty}
                for piece in _pieces(reply.text):
                    delta = {"content_index": 0, "delta": piece, "logprobs": []}
                    yield {"type": f"response.{kind}.delta", **at, **delta}
                yield {"type": "response.content_part.done", **at, "content_index": 0, "part": content}
            case _:
                yield {"type": "response.output_item.added", **at, "item": {**item, "arguments": ""}}
                for piece in _pieces(item["arguments"]):
                    yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
                done = {"arguments": item["arguments"], "name": item["name"]}
                yield {"type": "response.function_call_arguments.done", **at, **done}
        yield {"type": "response.output_item.done", **at, "item": item}
    body = _response(reply, model, items)
    yield {"type": f"response.{body['status']}", "response": body}


def _stop_reason(reply: WireReply) -> str:
    ended = {"length": "max_tokens", "refusal": "refusal"}
    return ended.get(reply.stop) or ("tool_use" if reply.calls else "end_turn")


def _blocks(reply: WireReply) -> list[tuple[Json, list[Json]]]:
    """The content blocks of a message, each with the deltas by which a stream sends it."""
    found: list[tuple[Json, list[Json]]] = []
    if reply.thinking:
        deltas: list[Json] = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(reply.thinking)]
        block = {"type": "thinking", "thinking": reply.thinking, "signature": "sealed"}
        found.append((block, [*deltas, {"type": "signature_delta", "signature": "sealed"}]))
    if reply.text:
        texts: list[Json] = [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text)]
        found.append(({"type": "text", "text": reply.text}, texts))
    for one in reply.calls:
        block = {"type": "tool_use", "id": one.id, "name": one.name, "input": dict(one.args)}
        pieces = _pieces(json.dumps(one.args))
        found.append((block, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]))
    return found


def _message(reply: WireReply, model: str, content: list[Json], stop_reason: str | None) -> Json:
    frame: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "stop_sequence": None}
    usage = {
        "input_tokens": reply.input_tokens - reply.cached_tokens,
        "output_tokens": reply.output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": reply.cached_tokens,
    }
    return {**frame, "content": content, "stop_reason": stop_reason, "usage": usage}


def _message_events(reply: WireReply, model: str) -> Iterator[Json]:
    emptied = {"text": "", "thinking": "", "signature": "", "input": {}}
    yield {"type": "message_start", "message": _message(reply, model, [], None)}
    for index, (block, deltas) in enumerate(_blocks(reply)):
        empty = {**block, **{name: value for name, value in emptied.items() if name in block}}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": reply.output_tokens}}
    yield {"type": "message_stop"}


def _gemini_parts(reply: WireReply) -> list[Json]:
    parts: list[Json] = [{"text": reply.thinking, "thought": True}] if reply.thinking else []
    parts += [{"text": piece} for piece in _pieces(reply.text)]
    return [
        *parts,
        *({"functionCall": {"id": one.id, "name": one.name, "args": dict(one.args)}} for one in reply.calls),
    ]


def _gemini(parts: list[Json], reply: WireReply | None, model: str) -> Json:
    """A reply, or one piece of it; the last has the reason of its end and the usage."""
    candidate: Json = {"index": 0, "content": {"role": "model", "parts": parts}}
    frame: Json = {"modelVersion": model, "responseId": "r1"}
    if reply is None:
        return {**frame, "candidates": [candidate]}
    candidate["finishReason"] = {"stop": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}[reply.stop]
    usage = {
        "promptTokenCount": reply.input_tokens,
        "candidatesTokenCount": reply.output_tokens - reply.reasoning_tokens,
        "thoughtsTokenCount": reply.reasoning_tokens,
        "cachedContentTokenCount": reply.cached_tokens,
        "totalTokenCount": reply.input_tokens + reply.output_tokens,
    }
    return {**frame, "candidates": [candidate], "usageMetadata": usage}
