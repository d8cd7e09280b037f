"""A model server on loopback for tests: OpenAI-compatible, scripted by a function, counting every request.

It serves from threads of the process that created it, so that child processes may be killed while it runs. It must
never reach beyond loopback, nor print anything.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any, Self

from pydantic import JsonValue
from typing_extensions import override

from teamwright.testing.chat import CallTools, ChatAnswer, ChatRequest, Drop, Fail, Say, SayJson, complete, parse

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
