"""A receiver of OTLP on loopback that keeps what it gets, and answers as a test wants."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass(frozen=True)
class Post:
    """One request: its path, headers and spans."""

    path: str
    headers: dict[str, str]
    body: bytes
    spans: tuple[Span, ...]


@dataclass
class OtlpReceiver:
    """Answers with these statuses in order, the last for ever. It waits for `may_answer` before each answer."""

    statuses: list[int] = field(default_factory=lambda: [200])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    rejects: int = 0
    posts: list[Post] = field(default_factory=list[Post])
    may_answer: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_answer.set()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._http.daemon_threads = True
        self._http.owner = self  # pyright: ignore[reportAttributeAccessIssue]
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.may_answer.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def taken(self) -> list[Span]:
        """The spans of the requests that were answered with success."""
        return [span for post, status in zip(self.posts, self._answered(), strict=False) for span in post.spans
                if status == 200]  # fmt: skip

    def _answered(self) -> Iterator[int]:
        yield from self.statuses
        while True:
            yield self.statuses[-1]

    def take(self, post: Post) -> int:
        """Keep a request, and return the status of its answer."""
        self.posts.append(post)
        return self.statuses[min(len(self.posts), len(self.statuses)) - 1]


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_POST(self) -> None:
        owner: OtlpReceiver = self.server.owner
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        request = ExportTraceServiceRequest.FromString(body)
        spans = [span for resource in request.resource_spans for scope in resource.scope_spans for span in scope.spans]
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = owner.take(Post(self.path, headers, body, tuple(spans)))
        owner.may_answer.wait(30)
        answer = ExportTraceServiceResponse()
        if owner.rejects:
            answer.partial_success.rejected_spans = owner.rejects
        content = answer.SerializeToString()
        try:
            self.send_response(status)
            for name, value in owner.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:  # the exporter waits no longer
            pass

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def attributes_of(span: Span) -> dict[str, object]:
    """The attributes of a span that are texts and numbers, by name."""
    found: dict[str, object] = {}
    for one in span.attributes:
        kind = one.value.WhichOneof("value")
        if kind is not None:
            found[one.key] = getattr(one.value, kind)
    return found
