"""A server on loopback that speaks the wire formats of four providers, whole and streamed, as a function says.

`WireServer(answer)` counts each request; `point_to` sets the base URLs and keys in the environment, so that the
official clients of the providers talk to it.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest

from tests.kit.wire_formats import Api, Json, WireError, WireReply, error_body, events, whole

MODELS: dict[Api, str] = {
    "chat": "openai-chat:gpt-5-mini",
    "responses": "openai-responses:gpt-5-mini",
    "messages": "anthropic:claude-opus-5",
    "gemini": "google:gemini-2.5-pro",
}
"""A model for each format."""
PACKAGES: dict[Api, str] = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "google.genai"}
"""The package of the client for each format."""


@dataclass(frozen=True)
class WireRequest:
    """A request as it arrived; `model` is the name at its provider."""

    api: Api
    body: Json
    headers: dict[str, str]
    model: str
    stream: bool

    @property
    def tools(self) -> list[str]:
        """The names of the tools that are offered."""
        offered: list[Json] = self.body.get("tools") or []
        if self.api == "gemini":
            return [one["name"] for tool in offered for one in tool.get("functionDeclarations", ())]
        return [(one.get("function") or one)["name"] for one in offered]

    @property
    def has_schema(self) -> bool:
        """Whether the answer is to be JSON that the provider holds to a schema."""
        match self.api:
            case "chat":
                return "response_format" in self.body
            case "responses":
                return "format" in self.body.get("text", {})
            case "messages":
                return "format" in self.body.get("output_config", {}) or "output_format" in self.body
            case "gemini":
                config = self.body.get("generationConfig", {})
                return "responseSchema" in config or "responseJsonSchema" in config

    @property
    def max_tokens(self) -> int | None:
        """The output cap."""
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        config = self.body.get("generationConfig", {})
        return next((self.body[one] for one in names if one in self.body), config.get("maxOutputTokens"))

    def __contains__(self, text: str) -> bool:
        return text in json.dumps(self.body, ensure_ascii=False)


class WireServer:
    """A running server; leaving its block stops it."""

    def __init__(self, answer: Callable[[WireRequest], WireReply | WireError]) -> None:
        self.answer = answer
        self.requests: list[WireRequest] = []
        self._http = _Http(self)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def point_to(self, patch: pytest.MonkeyPatch) -> None:
        """Let the clients of all providers use this server."""
        for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
            patch.setenv(name, "key-of-a-test")
        patch.setenv("OPENAI_BASE_URL", f"{self.url}/v1")
        patch.setenv("ANTHROPIC_BASE_URL", self.url)
        patch.setenv("GOOGLE_GEMINI_BASE_URL", self.url)


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, owner: WireServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about a client that has left, be it killed or interrupted."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_POST(self) -> None:
        request = self._request()
        owner: WireServer = self.server.owner
        owner.requests.append(request)
        answer = owner.answer(request)
        if isinstance(answer, WireError):
            self._send(answer.status, "application/json", json.dumps(error_body(request.api, answer)).encode())
        elif request.stream:
            self._send(200, "text/event-stream", b"".join(events(request.api, answer, request.model)))
        else:
            body = json.dumps(whole(request.api, answer, request.model)).encode()
            self._send(200, "application/json", body)

    def _request(self) -> WireRequest:
        size = int(self.headers.get("content-length") or 0)
        if len(content := self.rfile.read(size)) < size:
            raise ConnectionAbortedError
        body = json.loads(content)
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            return WireRequest("chat", body, headers, body["model"], bool(body.get("stream")))
        if path.endswith("/responses"):
            return WireRequest("responses", body, headers, body["model"], bool(body.get("stream")))
        if path.endswith("/messages"):
            return WireRequest("messages", body, headers, body["model"], bool(body.get("stream")))
        name, _, method = path.rpartition("/")[2].partition(":")
        return WireRequest("gemini", body, headers, name, method == "streamGenerateContent")

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
