"""HTTP answers of a model server: right ones as OpenAI sends them, and what a hostile or broken server sends."""

from __future__ import annotations

import json
from random import Random
from typing import Any, cast

from pydantic import JsonValue

from tests.fuzz.hostile_server import Step
from tests.fuzz.mutation import mutated_text, mutated_tree
from tests.fuzz.odd_values import odd_number, odd_text, odd_value

JSON = "application/json"
STATUSES = (
    200,
    200,
    200,
    201,
    204,
    206,
    301,
    302,
    304,
    400,
    401,
    403,
    404,
    408,
    409,
    413,
    418,
    422,
    429,
    500,
    502,
    503,
    529,
    600,
    999,
)
NAMES = ("choices", "delta", "content", "tool_calls", "finish_reason", "usage", "index", "id", "function", "arguments")


def chunks(random: Random) -> list[JsonValue]:
    """The chunks of a whole streamed answer: words or tool calls, an ending, and the usage."""
    found: list[JsonValue] = [_chunk({"role": "assistant", "content": ""})]
    if random.random() < 0.35:
        found += [_chunk({"tool_calls": [_call(random, index)]}) for index in range(random.randint(1, 3))]
        finish = "tool_calls"
    else:
        words = random.choice(("Yes, it is.", '{"score": 8}', odd_text(random)[:400], "word " * 200))
        size = random.choice((1, 7, 1000))
        found += [_chunk({"content": words[start : start + size]}) for start in range(0, len(words), size)][:300]
        finish = random.choice(("stop", "stop", "stop", "length", "content_filter"))
    found.append(_chunk({}, finish))
    found.append(_usage(random))
    return found


def _chunk(delta: JsonValue, finish: str | None = None) -> JsonValue:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _call(random: Random, index: int) -> JsonValue:
    arguments = random.choice(('{"word": "x"}', '{"word": 1}', "{", "", "null", "[]", '{"word": "' + "x" * 5000 + '"}'))
    return {
        "index": index if random.random() < 0.9 else odd_number(random),
        "id": random.choice((f"call_{index}", "call_0", "", "x", "x/write", "a" * 500, odd_text(random)[:100])),
        "type": "function",
        "function": {"name": random.choice(("look_up", "look_up", "terminate", "nothing", "")), "arguments": arguments},
    }


def _usage(random: Random) -> JsonValue:
    def figure() -> Any:
        return odd_number(random) if random.random() < 0.2 else random.randint(0, 500)

    usage: JsonValue = {"prompt_tokens": figure(), "completion_tokens": figure(), "total_tokens": figure()}
    if random.random() < 0.1:
        usage = {
            **usage,
            "prompt_tokens_details": {"cached_tokens": figure()},
            "completion_tokens_details": odd_value(random, 1),
        }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [],
        "usage": usage,
    }


def events(found: list[JsonValue], *, done: bool = True) -> str:
    """Chunks as server-sent events."""
    lines = [f"data: {json.dumps(one)}\n\n" for one in found]
    return "".join(lines) + ("data: [DONE]\n\n" if done else "")


def head(status: int = 200, kind: str = "text/event-stream", more: str = "") -> str:
    return f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{more}Connection: close\r\n\r\n"


def whole_answer(random: Random) -> list[Step]:
    """A right answer: it must be accepted."""
    words = random.choice(("Yes, it is.", "word " * 100, "é" * 50))
    usage: JsonValue = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    found = [_chunk({"role": "assistant", "content": words}), _chunk({}, "stop"), _chunk_of_usage(usage)]
    return [("send", head() + _latin(events(found)))]


def _chunk_of_usage(usage: JsonValue) -> JsonValue:
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [], "usage": usage}


def body_answer(random: Random) -> list[Step]:
    """A right answer in one JSON body: it must be accepted."""
    words = random.choice(("Yes, it is.", "word " * 100, "é" * 50))
    usage: JsonValue = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    return [("send", head(kind=JSON) + _latin(json.dumps(_completion({"content": words}, "stop", usage))))]


def hostile_body(random: Random) -> list[Step]:
    """An answer in one JSON body with something wrong in its content, its framing, its status or its size."""
    found = chunks(random)
    calls = [call for one in found for call in _delta(one).get("tool_calls", [])]
    words = "".join(str(_delta(one).get("content", "")) for one in found)
    message: dict[str, JsonValue] = {"content": words, **({"tool_calls": calls} if calls else {})}
    body = _completion(message, "tool_calls" if calls else "stop", cast("dict[str, JsonValue]", found[-1])["usage"])
    roll = random.random()
    if roll < 0.4:
        return _framed(random, json.dumps(mutated_tree(random, body, NAMES)), JSON)
    if roll < 0.6:
        return _framed(random, mutated_text(random, json.dumps(body), ('"', "{", "}", "null", "[", "\\u0000")), JSON)
    if roll < 0.7:
        return [("send", _failure(random))]
    if roll < 0.75:
        return [("send", head(kind=JSON)), ("flood", random.choice((" ", '{"a":', "[")))]
    if roll < 0.8:
        big = _completion({"content": "x" * random.choice((100_000, 2_000_000, 6_000_000))}, "stop", None)
        return [("send", head(kind=JSON) + json.dumps(big))]
    return _framed(random, json.dumps(body), JSON)


def _completion(message: dict[str, JsonValue], finish: str, usage: JsonValue) -> JsonValue:
    choice: JsonValue = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def _delta(chunk: JsonValue) -> dict[str, Any]:
    choices = cast("dict[str, Any]", chunk)["choices"]
    return choices[0]["delta"] if choices else {}


def cut_answer(random: Random) -> list[Step]:
    """An answer that ends early, without a `finish_reason` and without `[DONE]`: it must not be accepted."""
    found = [_chunk({"role": "assistant", "content": ""})]
    found += [_chunk({"content": f"word {number} "}) for number in range(random.randint(1, 30))]
    text = events(found, done=False)
    if random.random() < 0.5:
        text = text[: random.randrange(len(text) // 2, len(text) + 1)]
    if random.random() < 0.5:
        return [("send", head()), ("send", _latin(text)), *_ending(random)]
    return [
        ("send", head(more="Transfer-Encoding: chunked\r\n")),
        ("send", _chunked(random, text, ended=random.random() < 0.5)),
    ]


def hostile_answer(random: Random) -> list[Step]:
    """An answer with something wrong in its content, its framing, its status or its size."""
    roll = random.random()
    found = chunks(random)
    if roll < 0.35:
        changed = [mutated_tree(random, one, NAMES) if random.random() < 0.3 else one for one in found]
        return _framed(random, events(changed, done=random.random() < 0.8))
    if roll < 0.5:
        return _framed(
            random, mutated_text(random, events(found), ("data: ", "\n\n", "\r\n", "event: x\n", "[DONE]", ": hi\n"))
        )
    if roll < 0.62:
        return [("send", _failure(random))]
    if roll < 0.7:
        return [("send", head(kind=JSON) + _latin(json.dumps(odd_value(random))))]
    if roll < 0.76:
        body = random.choice(
            ("data: ", "x", "\n", "data: {}\n\n", events(found[1:2], done=False), ": ping\n\n", '{"a":' * 9)
        )
        return [("send", head()), ("flood", _latin(body))]
    if roll < 0.8:
        big = random.choice((100_000, 2_000_000, 6_000_000))
        return [("send", head() + _latin(events([_chunk({"content": "x" * big}), *found[-2:]])))]
    if roll < 0.88:
        return [
            (
                "send",
                mutated_text(random, head(), ("\r\n", "Content-Length: 5\r\n", "HTTP/1.1 ", "\x00"))
                + _latin(events(found)),
            )
        ]
    return _framed(random, events(found))


def _framed(random: Random, text: str, kind: str = "text/event-stream") -> list[Step]:
    """A body as it is, with a wrong length, in chunks of odd sizes, or in broken chunks."""
    body = _latin(text)
    match random.randrange(5):
        case 0 | 1:
            return [("send", head(kind=kind) + body), *_ending(random)]
        case 2:
            length = len(body) + random.choice((0, 0, -1, 1, 1000, -len(body)))
            return [("send", head(kind=kind, more=f"Content-Length: {length}\r\n") + body)]
        case 3:
            return [
                ("send", head(kind=kind, more="Transfer-Encoding: chunked\r\n") + _chunked(random, text, ended=True))
            ]
        case _:
            more = random.choice(
                ("Transfer-Encoding: chunked\r\n", "Content-Encoding: gzip\r\n", "Content-Encoding: br\r\n")
            )
            return [("send", head(kind=kind, more=more) + body)]


def _chunked(random: Random, text: str, *, ended: bool) -> str:
    data, size = text.encode("utf-8", "surrogatepass"), random.choice((1, 3, 50, 4096))
    pieces = [data[start : start + size] for start in range(0, min(len(data), 20_000 * size), size)]
    framed = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return (framed + (b"0\r\n\r\n" if ended else b"")).decode("latin-1")


def _failure(random: Random) -> str:
    status = random.choice(STATUSES)
    message = {"error": {"message": odd_text(random)[:3000], "type": "x", "code": odd_value(random, 1)}}
    body = (
        json.dumps(message)
        if random.random() < 0.6
        else random.choice(("", "<html>oops</html>", json.dumps(odd_value(random))))
    )
    after = random.choice(
        (
            "",
            "",
            "Retry-After: 0\r\n",
            "Retry-After: -5\r\n",
            "Retry-After: soon\r\n",
            "Retry-After: 1e999\r\n",
            "Location: http://127.0.0.1:1/\r\n",
        )
    )
    return head(status, random.choice(("application/json", "text/html", "")), after) + _latin(body)


def _ending(random: Random) -> list[Step]:
    return [random.choice((("pause", 0.0), ("reset", 0), ("half", 0.2)))]


def _latin(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")
