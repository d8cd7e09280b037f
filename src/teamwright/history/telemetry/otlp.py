"""Spans in OTLP: where the environment sends them, encoded, as JSON or as protobuf, and sent to a receiver over HTTP.

A request never raises for what it meets at the other end: that is in its response. The headers that the environment
gives are secrets: no message, record or file has them.
"""

from __future__ import annotations

import http.client
import os
import re
import ssl
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cached_property
from importlib.metadata import version
from io import BufferedReader, RawIOBase
from time import monotonic, time
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from teamwright.errors import MissingExtra, UsageError
from teamwright.history.telemetry import conventions as names
from teamwright.history.telemetry.spans import AttributeValue, Span
from teamwright.values.text.secrets import mask_text

if TYPE_CHECKING:
    from socket import socket

    from _typeshed import WriteableBuffer
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from pydantic import JsonValue


ENDPOINT, HEADERS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"
SERVICE, RESOURCE, DISABLED = "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED"
EXPORTER = "OTEL_TRACES_EXPORTER"
"""Names to whom traces go, of which we know `otlp`; with others alone, such as `none`, nothing is sent."""
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Asks instrumentations of models for what is said; in spans, which is where it goes, with one of `IN_SPANS`."""
IN_SPANS = frozenset(("true", "span_only", "span_and_event"))
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")


def configured_endpoint() -> str | None:
    """Return the receiver that the environment names, unless telemetry is disabled there, or traces go elsewhere."""
    exporters = {one.strip().lower() for one in os.environ.get(EXPORTER, "otlp").split(",")}
    if os.environ.get(DISABLED, "").strip().lower() == "true" or "otlp" not in exporters:
        return None
    return os.environ.get(ENDPOINT, "").strip() or None


def wants_content() -> bool:
    """Whether live telemetry has what is said in runs."""
    return os.environ.get(CONTENT, "").strip().lower() in IN_SPANS


def configured_headers() -> dict[str, str]:
    """Return the headers of each request; raises `UsageError` if they can't be sent."""
    headers = dict(_pairs(os.environ.get(HEADERS, "")))
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UsageError(f"{HEADERS} must be  name=value,name=value  with percent-encoded values.")
    return headers


def resource_attributes() -> dict[str, str]:
    """Return what describes this program to the receiver."""
    given = dict(_pairs(os.environ.get(RESOURCE, "")))
    return {**given, "service.name": os.environ.get(SERVICE) or given.get("service.name") or names.SCOPE}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Read `name=value,name=value`, percent-encoded."""
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            yield unquote(name.strip()), unquote(value.strip())


TRACES = "/v1/traces"
TIMEOUT = 10.0
LARGEST_ANSWER = 64 * 1024
RETRYABLE = frozenset((429, 502, 503, 504))
"""The only statuses after which OTLP sends again; 500 is not among them."""
HINTS = {
    401: f": set its headers in {HEADERS}",
    403: f": set its headers in {HEADERS}",
    404: ": is that its address?",
    415: ": it takes no OTLP in protobuf",
}
_VISIBLE = re.compile(r"[!-~]+")


def encode(spans: Iterable[Span]) -> bytes:
    """Return spans as the body of an OTLP request."""
    return _request(spans).SerializeToString(deterministic=True)


def encode_json(spans: Iterable[Span]) -> dict[str, JsonValue]:
    """Return spans as OTLP in JSON, in which ids are hexadecimal."""
    from google.protobuf.json_format import MessageToDict

    found = MessageToDict(_request(spans), use_integers_for_enums=True)
    for resource in found.get("resourceSpans", ()):
        for scope in resource["scopeSpans"]:
            for one in scope["spans"]:
                for part in (one, *one.get("links", ())):
                    _write_ids_in_hex(part)
    return cast("dict[str, JsonValue]", found)


def _write_ids_in_hex(part: dict[str, Any]) -> None:
    from base64 import b64decode

    for name in ("traceId", "spanId", "parentSpanId"):
        if name in part:
            part[name] = b64decode(part[name]).hex()


def _request(spans: Iterable[Span]) -> ExportTraceServiceRequest:
    try:
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
        from opentelemetry.proto.common.v1 import common_pb2 as common
        from opentelemetry.proto.trace.v1 import trace_pb2 as trace
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("opentelemetry", "google"):
            raise
        raise MissingExtra("otlp", "Telemetry") from error

    def pairs(attributes: Mapping[str, AttributeValue] | Mapping[str, str]) -> list[KeyValue]:
        return [common.KeyValue(key=name, value=_value(common, value)) for name, value in attributes.items()]

    request = service.ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.extend(pairs(resource_attributes()))
    scope = resource.scope_spans.add()
    scope.scope.name, scope.scope.version = names.SCOPE, version("teamwright")
    for one in spans:
        made = scope.spans.add(
            trace_id=one.trace_id,
            span_id=one.span_id,
            parent_span_id=one.parent,
            name=_text(one.name),
            kind=trace.Span.SPAN_KIND_CLIENT if one.kind == "client" else trace.Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=_nanoseconds(one.begin),
            end_time_unix_nano=_nanoseconds(one.end),
            attributes=pairs(one.attributes),
        )
        if one.error is not None:
            made.status.code, made.status.message = trace.Status.STATUS_CODE_ERROR, _text(one.error)
        for link in one.links:
            made.links.add(trace_id=link.trace_id, span_id=link.span_id, attributes=pairs({names.LINK: link.to}))
        for note in one.notes:
            made.events.add(time_unix_nano=_nanoseconds(note.time), name=note.name, attributes=pairs(note.attributes))
    return request


def _value(common: Any, value: AttributeValue) -> Any:
    match value:
        case bool():
            return common.AnyValue(bool_value=value)
        case int():
            return common.AnyValue(int_value=value)
        case float():
            return common.AnyValue(double_value=value)
        case str():
            return common.AnyValue(string_value=_text(value))
        case _:
            items = [common.AnyValue(string_value=_text(one)) for one in value]
            return common.AnyValue(array_value=common.ArrayValue(values=items))


def _text(text: str) -> str:
    """Return a text that UTF-8 can encode: names and errors may have halves of a character."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e6) * 1000


@dataclass(frozen=True, slots=True)
class ReceiverResponse:
    """What came of one request. `problem` says in words why spans were not taken, `retry` whether to send them again.

    `answered` says that the receiver is there.
    """

    problem: str | None = None
    retry: bool = False
    answered: bool = False
    retry_after: float = 0.0
    rejected: int = 0


@dataclass(frozen=True)
class Receiver:
    """A receiver of traces over HTTP. Its headers are shown nowhere."""

    tls: bool
    host: str
    port: int
    target: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @classmethod
    def at(cls, endpoint: str) -> Self:
        """Read an endpoint, below which traces go to `v1/traces`; raises `UsageError`."""
        example = "such as  http://localhost:4318"
        if not _VISIBLE.fullmatch(endpoint):
            raise UsageError(f"The receiver of telemetry needs an http address, {example}")
        try:
            parts = urlsplit(endpoint)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
            parts = urlsplit("")
        if parts.scheme not in {"http", "https"} or not host:
            raise UsageError(
                f"The receiver of telemetry is at {mask_text(endpoint)!r}; name an http address, {example}"
            )
        path = parts.path.rstrip("/")
        target = (path if path.endswith(TRACES) else path + TRACES) + (f"?{parts.query}" if parts.query else "")
        headers = configured_headers()
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            headers.setdefault("Authorization", f"Basic {b64encode(login.encode()).decode()}")
        tls = parts.scheme == "https"
        return cls(tls, host, port or (443 if tls else 80), target, headers)

    @cached_property
    def place(self) -> str:
        """The host and port, for messages."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def send(self, body: bytes, timeout: float = TIMEOUT) -> ReceiverResponse:
        """Send the body of a request. Blocks, for not much longer than `timeout`; never raises for what it meets."""
        deadline = monotonic() + timeout
        connection = (
            http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=ssl.create_default_context())
            if self.tls
            else http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        )
        headers = {"User-Agent": "teamwright", "Content-Type": "application/x-protobuf", "Connection": "close"}
        try:
            connection.request("POST", self.target, body, headers | dict(self.headers))
            reader = cast("socket", _TimedReader(connection.sock, deadline))
            answer = http.client.HTTPResponse(reader, method="POST")
            answer.begin()
            return _response(answer, answer.read(LARGEST_ANSWER))
        except TimeoutError:
            return ReceiverResponse("does not answer in time", retry=True)
        except ssl.SSLError as error:
            return ReceiverResponse(f"has no valid certificate ({error.reason or 'TLS'})", retry=True)
        except OSError as error:
            return ReceiverResponse(f"can't be reached ({error.strerror or type(error).__name__})", retry=True)
        except (http.client.HTTPException, ValueError):
            return ReceiverResponse("does not speak HTTP", retry=True)
        finally:
            connection.close()


class _TimedReader(RawIOBase):
    """Reads from a connection until a deadline, however slowly the other end writes; raises `TimeoutError` then."""

    def __init__(self, connection: socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline

    def makefile(self, _: str) -> BufferedReader:
        """Return the file that a response is read from, as that of a socket."""
        return BufferedReader(self)

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: WriteableBuffer) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        if (left := self._deadline - monotonic()) <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def _response(answer: http.client.HTTPResponse, body: bytes) -> ReceiverResponse:
    if 200 <= answer.status < 300:
        if not (rejected := _rejected(body)):
            return ReceiverResponse(answered=True)
        return ReceiverResponse(f"did not take {rejected} spans", answered=True, rejected=rejected)
    hint = HINTS.get(answer.status, "")
    problem = f"answers HTTP {answer.status}{hint}"
    after = _retry_after(answer.headers.get("Retry-After", ""))
    return ReceiverResponse(problem, answer.status in RETRYABLE, True, after)


def _rejected(body: bytes) -> int:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        return max(0, ExportTraceServiceResponse.FromString(body).partial_success.rejected_spans)
    except DecodeError:  # such as JSON, or a page of a proxy
        return 0


def _retry_after(text: str) -> float:
    if text.strip().isdecimal():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (ValueError, OverflowError):
        return 0.0
