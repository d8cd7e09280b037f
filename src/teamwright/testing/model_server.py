"""Requests and answers of the loopback model server, and their OpenAI wire format.

A token is four characters here, so that caps and usage are the same on every machine. Ids derive from the request, so
that a request that is repeated after a crash gets the same ids.

A model server on loopback for tests: OpenAI-compatible, scripted by a function, counting every request.

It serves from threads of the process that created it, so that child processes may be killed while it runs. It must
never reach beyond loopback, nor print anything.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Annotated, Any, Literal, Self, cast

from pydantic import Field, JsonValue
from typing_extensions import override

from teamwright.values.limits import CHARACTERS_PER_TOKEN
from teamwright.values.value import Value

CHARACTERS_PER_CHUNK = 20


def tokens(text: str) -> int:
    """Count the tokens of a text: one for each four characters, rounded up, and at least one."""
    return max(1, -(-len(text) // CHARACTERS_PER_TOKEN))


class ChatMessage(Value, defer_build=False):
    """One message of a request, its content as plain text."""

    role: str
    content: str = ""
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: tuple[str, ...] = ()


class ChatRequest(Value, defer_build=False):
    """One request as the server received it; `number` counts from 1 and `at` is in seconds since the epoch."""

    number: int
    at: float
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, JsonValue]
    model: str
    messages: tuple[ChatMessage, ...]
    tools: tuple[str, ...] = ()
    stream: bool = False
    include_usage: bool = False
    max_tokens: int | None = None

    @property
    def prompt(self) -> str:
        """The text of the last message that a user or a tool sent."""
        return next((one.content for one in reversed(self.messages) if one.role in {"user", "tool"}), "")

    @property
    def idempotency_key(self) -> str | None:
        """The idempotency key that the caller sent, if any."""
        return self.headers.get("idempotency-key") or self.headers.get("x-idempotency-key")

    @property
    def digest(self) -> str:
        """A hash of the content, equal for equal requests."""
        content = json.dumps(
            [self.path, self.model, self.body.get("messages"), self.body.get("prompt")], sort_keys=True
        )
        return hashlib.sha256(content.encode()).hexdigest()[:12]


Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Say(Value, defer_build=False):
    """Answer with text."""

    text: str
    delay: Seconds = 0.0


class SayJson(Value, defer_build=False):
    """Answer with JSON as the text."""

    data: JsonValue
    delay: Seconds = 0.0


class ToolCall(Value, defer_build=False):
    """A tool call that the model requests; arguments given as a string are sent unchanged, valid JSON or not."""

    name: str
    args: Mapping[str, JsonValue] | str = {}
    id: str | None = None


class CallTools(Value, defer_build=False):
    """Answer with tool calls, and optional text beside them."""

    calls: tuple[ToolCall, ...]
    text: str = ""
    delay: Seconds = 0.0


class Fail(Value, defer_build=False):
    """Answer with an HTTP error; the default body is an OpenAI error object."""

    status: int
    message: str = "scripted failure"
    code: str | None = None
    retry_after: Seconds | None = None
    body: JsonValue = None
    delay: Seconds = 0.0


class Drop(Value, defer_build=False):
    """Drop the connection; if the caller streams, after sending the text."""

    text: str = ""
    delay: Seconds = 0.0


ChatAnswer = Say | SayJson | CallTools | Fail | Drop


def parse(number: int, at: float, path: str, headers: Mapping[str, str], body: Mapping[str, JsonValue]) -> ChatRequest:
    """Parse the body of a chat request, or of the plain call `{name, prompt}`; raises `ValueError` if malformed."""
    known = cast("dict[str, Any]", body)
    if path.endswith("/call"):
        prompt: Any = {"role": "user", "content": known["prompt"]}
        known = cast("dict[str, Any]", {"model": known["name"], "messages": [prompt]})
    options: dict[str, Any] = known.get("stream_options") or {}
    return ChatRequest(
        number=number,
        at=at,
        path=path,
        headers=headers,
        body=body,
        model=known.get("model") or "",
        messages=tuple(_message(one) for one in known["messages"]),
        tools=tuple(tool["function"]["name"] for tool in known.get("tools") or ()),
        stream=bool(known.get("stream")),
        include_usage=bool(options.get("include_usage")),
        max_tokens=known.get("max_completion_tokens") or known.get("max_tokens"),
    )


def _message(raw: Mapping[str, Any]) -> ChatMessage:
    content = raw.get("content") or ""
    if isinstance(content, list):
        parts = cast("list[Mapping[str, str]]", content)
        content = "".join(part.get("text", "") for part in parts)
    return ChatMessage(
        role=raw["role"],
        content=content,
        name=raw.get("name"),
        tool_call_id=raw.get("tool_call_id"),
        tool_calls=tuple(call["function"]["name"] for call in raw.get("tool_calls") or ()),
    )


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer cut to the output cap of its request, ready to be sent whole or in chunks."""

    request: ChatRequest
    text: str
    calls: tuple[tuple[str, str, str], ...]
    finish: Literal["stop", "tool_calls", "length"]
    output_tokens: int

    @property
    def usage(self) -> dict[str, JsonValue]:
        """The usage of the request, as OpenAI reports it."""
        prompt = sum(tokens(message.content) for message in self.request.messages)
        total = prompt + self.output_tokens
        return {"prompt_tokens": prompt, "completion_tokens": self.output_tokens, "total_tokens": total}

    def whole(self, *, with_usage: bool) -> dict[str, JsonValue]:
        """Return the body of a reply that is not streamed."""
        message: dict[str, JsonValue] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = [_call(*call) for call in self.calls]
        choice: JsonValue = {"index": 0, "message": message, "finish_reason": self.finish}
        return self._frame("chat.completion", [choice], with_usage=with_usage)

    def chunks(self, *, with_usage: bool) -> Iterator[dict[str, JsonValue]]:
        """Yield the chunks of a streamed reply; usage is a separate last chunk, if requested."""
        yield self._delta({"role": "assistant", "content": ""})
        for start in range(0, len(self.text), CHARACTERS_PER_CHUNK):
            yield self._delta({"content": self.text[start : start + CHARACTERS_PER_CHUNK]})
        for index, (identity, name, arguments) in enumerate(self.calls):
            yield self._delta({"tool_calls": [_call(identity, name, "") | {"index": index}]})
            for start in range(0, len(arguments), CHARACTERS_PER_CHUNK):
                piece = arguments[start : start + CHARACTERS_PER_CHUNK]
                yield self._delta({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield self._delta({}, finish=self.finish)
        if with_usage and self.request.include_usage:
            yield self._frame("chat.completion.chunk", [], with_usage=True)

    def _delta(self, delta: dict[str, JsonValue], finish: str | None = None) -> dict[str, JsonValue]:
        choice: JsonValue = {"index": 0, "delta": delta, "finish_reason": finish}
        return self._frame("chat.completion.chunk", [choice], with_usage=False)

    def _frame(self, kind: str, choices: list[JsonValue], *, with_usage: bool) -> dict[str, JsonValue]:
        frame: dict[str, JsonValue] = {
            "id": f"chatcmpl-{self.request.digest}",
            "object": kind,
            "created": int(self.request.at),
            "model": self.request.model,
            "choices": choices,
        }
        if with_usage:
            frame["usage"] = self.usage
        return frame


def _call(identity: str, name: str, arguments: str) -> dict[str, JsonValue]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def complete(request: ChatRequest, answer: Say | SayJson | CallTools | Drop, *, honour_cap: bool = True) -> Completion:
    """Turn an answer into a completion, cut at the cap of the request: the text first, then the arguments of calls."""
    text = json.dumps(answer.data) if isinstance(answer, SayJson) else answer.text
    tool_calls = answer.calls if isinstance(answer, CallTools) else ()
    written = [call.args if isinstance(call.args, str) else json.dumps(dict(call.args)) for call in tool_calls]
    needed = max(1, sum(tokens(part) for part in (text, *written) if part))
    cap = request.max_tokens if honour_cap and request.max_tokens is not None else needed
    text, remaining = _cut_to_tokens(text, min(cap, needed))
    calls: list[tuple[str, str, str]] = []
    for index, (call, arguments) in enumerate(zip(tool_calls, written, strict=True)):
        shortened, remaining = _cut_to_tokens(arguments, remaining)
        calls.append((call.id or f"call_{request.digest}_{index}", call.name, shortened))
    finish = "length" if needed > cap else "tool_calls" if calls else "stop"
    return Completion(request, text, tuple(calls), finish, min(cap, needed))


def _cut_to_tokens(text: str, remaining: int) -> tuple[str, int]:
    """Cut a text to the remaining tokens, and return it with the tokens that remain after it."""
    shortened = text[: remaining * CHARACTERS_PER_TOKEN]
    return shortened, remaining - (tokens(shortened) if shortened else 0)


CHAT, CALL, MODELS = "/v1/chat/completions", "/call", "/v1/models"


def echo(request: ChatRequest) -> ChatAnswer:
    """Answer with the prompt: the default of `ModelServer`."""
    return Say(text=f"You said: {request.prompt}")


class ModelServer:
    """A running server; leaving its block stops it and raises the first exception of `answer`, if any.

    `answer` runs in the thread of its request, so it may block. With `report_usage=False` the server omits the usage;
    with `honour_cap=False` it exceeds the output cap.
    """

    def __init__(
        self, answer: Callable[[ChatRequest], ChatAnswer] = echo, *, report_usage: bool = True, honour_cap: bool = True
    ) -> None:
        self.answer, self.report_usage, self.honour_cap = answer, report_usage, honour_cap
        self.stopped = threading.Event()
        self._arrived = threading.Condition()
        self._requests: list[ChatRequest] = []
        self._endpoint = _Endpoint(self)
        self._port = int(self._endpoint.server_address[1])
        self._thread = threading.Thread(target=self._endpoint.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close()
        if error is None and self._endpoint.errors:
            raise self._endpoint.errors[0]

    @property
    def url(self) -> str:
        """The address for OpenAI clients."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def call_url(self) -> str:
        """The address that takes `{"name", "prompt"}` and answers `{"text"}`."""
        return f"http://127.0.0.1:{self._port}{CALL}"

    @property
    def requests(self) -> list[ChatRequest]:
        """The requests so far, in order of arrival."""
        with self._arrived:
            return list(self._requests)

    @property
    def count(self) -> int:
        """The number of requests so far, answered or not."""
        with self._arrived:
            return len(self._requests)

    def wait_for(self, count: int, timeout: float = 30.0) -> None:
        """Block this thread until `count` requests have arrived."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self._requests) >= count, timeout):
                raise TimeoutError(f"{len(self._requests)} requests arrived in {timeout:g} s, not {count}")

    def clear(self) -> None:
        """Discard the requests so far and count from one again."""
        with self._arrived:
            self._requests.clear()

    def receive(self, path: str, headers: Mapping[str, str], body: Mapping[str, JsonValue]) -> ChatRequest:
        """Number and store a request; raises `ValueError`, without counting it, if it is malformed."""
        with self._arrived:
            request = parse(len(self._requests) + 1, time.time(), path, headers, body)
            self._requests.append(request)
            self._arrived.notify_all()
            return request

    def close(self) -> None:
        """Stop listening and close every connection. Idempotent."""
        if self.stopped.is_set():
            return
        self.stopped.set()
        self._endpoint.shutdown()
        self._endpoint.end_connections()
        self._endpoint.server_close()
        self._thread.join()


class _Endpoint(ThreadingTCPServer):
    """The listening socket and its open connections."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, owner: ModelServer) -> None:
        self.owner = owner
        self.errors: list[BaseException] = []
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Connection)

    @override
    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    @override
    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Store an exception of `answer`; ignore callers that disconnected."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self.errors.append(error)

    def end_connections(self) -> None:
        for connection in tuple(self._open):
            _hang_up(connection)


class _Connection(BaseHTTPRequestHandler):
    """One connection, which may carry many requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Endpoint  # pyright: ignore[reportIncompatibleVariableOverride]

    @override
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def do_GET(self) -> None:
        if self.path == MODELS:
            self._send_json(200, {"object": "list", "data": [{"id": "test", "object": "model"}]})
        else:
            self._send_failure(Fail(status=404, message=f"there is no {self.path!r} here"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path not in {CHAT, CALL}:
            self._send_failure(Fail(status=404, message=f"there is no {self.path!r} here"))
            return
        try:
            body = json.loads(raw)
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = self.server.owner.receive(self.path, headers, body)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            self._send_failure(Fail(status=400, message=f"malformed request: {error}"))
            return
        self._answer(request)

    def _answer(self, request: ChatRequest) -> None:
        answer = self.server.owner.answer(request)
        if answer.delay and self.server.owner.stopped.wait(answer.delay):
            return
        match answer:
            case Fail():
                self._send_failure(answer)
            case Drop() if not request.stream:
                self._drop()
            case Say() | SayJson() | CallTools() | Drop():
                self._send_answer(request, answer)

    def _send_answer(self, request: ChatRequest, answer: Say | SayJson | CallTools | Drop) -> None:
        owner = self.server.owner
        completion = complete(request, answer, honour_cap=owner.honour_cap)
        if request.path == CALL:
            self._send_json(200, {"text": completion.text})
        elif not request.stream:
            self._send_json(200, completion.whole(with_usage=owner.report_usage))
        else:
            chunks = [json.dumps(chunk) for chunk in completion.chunks(with_usage=owner.report_usage)]
            if isinstance(answer, Drop):
                self._stream(chunks[:-1])
                self._drop()
            else:
                self._stream([*chunks, "[DONE]"])
                self.wfile.write(b"0\r\n\r\n")

    def _stream(self, events: list[str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def _send_failure(self, fail: Fail) -> None:
        kind = "invalid_request_error" if fail.status < 500 else "server_error"
        body: JsonValue = fail.body or {"error": {"message": fail.message, "type": kind, "code": fail.code}}
        self._send_json(fail.status, body, {} if fail.retry_after is None else {"Retry-After": f"{fail.retry_after:g}"})

    def _send_json(self, status: int, body: JsonValue, headers: Mapping[str, str] | None = None) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _drop(self) -> None:
        self.close_connection = True
        _hang_up(self.connection)


def _hang_up(connection: socket.socket) -> None:
    """Close a connection in both directions, even if a forked child holds a copy of it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
