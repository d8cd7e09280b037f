"""The HTTP transport of model clients: reads replies within bounds, and sends a server's key to that server only.

Every reply passes here before a client library sees it. A reply that ends early, stalls or exceeds its size raises an
error of this module, however the library would handle it.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from urllib.request import getproxies, proxy_bypass

import httpx2
from typing_extensions import override

from teamwright.values.call_limits import IDLE_SECONDS, MAX_BYTES

CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0
CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
SMALLEST_EVENT = 65_536
"""The minimum limit on a single event of a stream: frames are larger than the text in them."""
FRAME_FACTOR = 128
"""Maximum bytes of a stream for each byte of text in it; a token of four characters takes up to 400."""
LARGE_STREAM = 64_000_000
STREAM = "text/event-stream"
PASSED = frozenset({
    b"accept", b"accept-encoding", b"connection", b"content-length", b"content-type", b"host", b"idempotency-key",
    b"transfer-encoding", b"user-agent",
})  # fmt: skip
"""Headers that are sent to a server of the user's own, besides those in which the client library identifies itself."""
CLIENT_PREFIX = b"x-stainless-"
STREAM_REQUESTED = re.compile(rb'"stream"\s{0,8}:\s{0,8}true')
TAIL = 96
END = re.compile(
    rb"""[\r\n]data:[ ]{0,8}\[DONE\]
    | "finish_?[rR]eason"\s{0,8}:\s{0,8}"[^"]
    | "type"\s{0,8}:\s{0,8}"(?:message_stop|message-end|response\.(?:completed|incomplete|failed|cancelled))"
    | [\r\n]event:[ ]{0,8}(?:message_stop|error)
    | "(?:blockReason|error)"\s{0,8}:\s{0,8}["{]""",
    re.VERBOSE,
)
"""The end of a stream, in the formats of OpenAI, Anthropic, Cohere and Google. Quotes and line ends inside a JSON
string are escaped, so no text of a model can match."""
BLANK_LINES = (b"\n\n", b"\n\r\n", b"\r\r")
DONES = (b"data: [DONE]\n\n", b"data: [DONE]\r\n\r\n")
"""The last event of a stream in the format of OpenAI. Client libraries stop reading at it and abandon their generators,
each of which the event loop then closes in a task of its own. So the event is not passed on: a stream just ends, which
takes 0.3 ms less."""
CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
END_SECONDS = 0.25
"""Seconds in which a server has to end its reply after the last event; then the connection is closed."""


class HeaderInvalid(httpx2.LocalProtocolError):
    """A header can't be sent: HTTP does not allow its name or its value. The message does not contain the value."""


class ReplyBroken(httpx2.RemoteProtocolError):
    """The reply broke off or never began; the server may have spent tokens on it."""


class ReplyRefused(httpx2.RemoteProtocolError):
    """The reply is too large or in an encoding that was not requested, and is not read any further."""


class ReplySilent(httpx2.ReadTimeout):
    """The reply began and then stalled for too long."""


class CertificatesUnreadable(httpx2.ConnectError):
    """The root certificates, without which no server can be trusted, can't be read."""


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """Limits on reading a reply: at most `idle_seconds` seconds of silence and `max_bytes` of content.

    `extra_headers` are those that the settings of the request add; a server of the user's own gets them too.
    """

    idle_seconds: float = IDLE_SECONDS
    max_bytes: int = MAX_BYTES
    extra_headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def event_bytes(self) -> int:
        """The limit on one event: enough for a text that will be cut."""
        return max(SMALLEST_EVENT, 2 * self.max_bytes)

    @property
    def stream_bytes(self) -> int:
        """The limit on a whole stream, most of which is frames around the text."""
        return max(SMALLEST_EVENT, min(FRAME_FACTOR * self.max_bytes, max(LARGE_STREAM, 16 * self.max_bytes)))


USUAL_BOUNDS = ReadBounds()


@dataclass(slots=True)
class Reading:
    """Replies that are read within the same bounds; `ended` says that the last one was read to its end."""

    bounds: ReadBounds
    ended: bool = False


_READING: ContextVar[Reading | None] = ContextVar("reading", default=None)


@contextmanager
def read_within(bounds: ReadBounds) -> Generator[Reading]:
    """Within this block, read replies within these bounds."""
    reading = Reading(bounds)
    token = _READING.set(reading)
    try:
        yield reading
    finally:
        _READING.reset(token)


def is_read_to_end() -> bool:
    """Whether the last reply within the block of `read_within` was read to its end, so that nothing is left open."""
    reading = _READING.get()
    return reading is not None and reading.ended


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests and bounds their responses.

    `own` are the headers for one server of the user's own; all others that a client library adds from the environment
    (another provider's organisation, project, key or headers) are removed. Redirects are never followed. A proxy of the
    environment is used for HTTPS only, where it sees neither key nor content. `bounds` override those of `read_within`.
    With `streams_end=False`, a stream may end without an end marker.
    """

    def __init__(
        self, own: Mapping[str, str] | None = None, *, bounds: ReadBounds | None = None, streams_end: bool = True
    ) -> None:
        self._own, self._bounds, self._streams_end = own, bounds, streams_end
        self._transports: dict[tuple[str, str | None], httpx2.AsyncHTTPTransport] = {}

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request and return its response, whose body is read within bounds."""
        reading = (_READING.get() if self._bounds is None else None) or Reading(self._bounds or USUAL_BOUNDS)
        bounds, reading.ended = reading.bounds, False
        if self._own is not None:
            _restrict_headers(request.headers, {**self._own, **bounds.extra_headers})
        request.headers["Accept-Encoding"] = "identity"  # a compressed reply may be a thousand times its size
        try:
            response = await self._transport(request.url).handle_async_request(request)
        except (httpx2.ReadError, httpx2.RemoteProtocolError) as error:
            raise ReplyBroken("it closed the connection without an answer", request=request) from error
        except httpx2.LocalProtocolError as error:
            raise HeaderInvalid("a header can't be sent", request=request) from error
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("", "identity"):
            await response.aclose()
            raise ReplyRefused(f"it sent a body in the encoding {encoding[:40]!r}, unasked", request=request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        streams = response.is_success and _is_stream(request, response.headers.get("content-type", "").lower())
        watch = EventWatch(bounds, ends=self._streams_end) if streams else BodyWatch(bounds)
        response.stream = GuardedStream(response.stream, request, reading, watch)
        return response

    def _transport(self, url: httpx2.URL) -> httpx2.AsyncHTTPTransport:
        route = url.scheme, _proxy_for(url)
        if route not in self._transports:
            # Reading the root certificates takes 40 ms. A plain connection needs none, and TLS without them is refused.
            verify = True if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            try:
                self._transports[route] = httpx2.AsyncHTTPTransport(verify=verify, limits=CONNECTIONS, proxy=route[1])
            except OSError as error:
                raise _unreadable_certificates(error) from error
        return self._transports[route]

    @override
    async def aclose(self) -> None:
        """Close every connection."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()


def guarded_client(
    transport: GuardedTransport, headers: Mapping[str, str] | None = None, read: float | None = None
) -> httpx2.AsyncClient:
    """Return a client on this transport. Without a `read` timeout, the caller has to bound the time of a reply."""
    timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, read=read, write=WRITE_SECONDS)
    return httpx2.AsyncClient(transport=transport, timeout=timeout, headers=headers, follow_redirects=False)


def _unreadable_certificates(error: OSError) -> CertificatesUnreadable:
    given = " and ".join(f"{name}={os.environ[name]!r}" for name in CERTIFICATE_VARIABLES if name in os.environ)
    step = f"correct or unset {given}" if given else "see that those of this machine are installed"
    return CertificatesUnreadable(f"its certificate can't be checked without root certificates; {step} ({error})")


def _restrict_headers(headers: httpx2.Headers, own: Mapping[str, str]) -> None:
    """Remove the headers that the server must not see, and set its own."""
    replaced = {name.lower().encode() for name in own}
    for name, _ in headers.raw:  # without decoding them, which takes longer than all the rest
        key = name.lower()
        if key not in PASSED and key not in replaced and not key.startswith(CLIENT_PREFIX):
            headers.pop(key.decode("latin-1"), None)
    for name, value in own.items():
        headers[name] = value


def _is_stream(request: httpx2.Request, content_type: str) -> bool:
    """Whether a response is a stream: by its content type, or because one was requested and the type is unclear."""
    if content_type.startswith(STREAM):
        return True
    if "json" in content_type or "html" in content_type:
        return False
    try:
        return STREAM_REQUESTED.search(request.content) is not None
    except httpx2.RequestNotRead:
        return False


def _proxy_for(url: httpx2.URL) -> str | None:
    """The proxy of the environment for this URL; only HTTPS uses one."""
    if url.scheme != "https":
        return None
    proxies = getproxies()
    proxy = proxies.get("https") or proxies.get("all")
    return None if not proxy or proxy_bypass(url.host) else proxy


class BodyWatch:
    """Bounds the size of a response that is not a stream; the HTTP layer detects its end."""

    complete = False
    may_end = True

    def __init__(self, bounds: ReadBounds) -> None:
        self._most, self._size = max(SMALLEST_EVENT, bounds.max_bytes), 0

    def feed(self, chunk: bytes) -> str | None:
        """Count a chunk; return the reason to stop reading, if there is one."""
        self._size += len(chunk)
        return f"it sent more than {self._most} bytes" if self._size > self._most else None


class EventWatch:
    """Bounds the size of each event and of the whole stream, and detects the end marker.

    It is `complete` once the end marker was seen. Work is linear in the input, and only the last few bytes are kept
    between two chunks.
    """

    def __init__(self, bounds: ReadBounds, *, ends: bool = True) -> None:
        self._most_event, self._most = bounds.event_bytes, bounds.stream_bytes
        self._size = self._event = 0
        self._tail, self._ends = b"\n", ends
        self.complete = False

    @property
    def may_end(self) -> bool:
        return self.complete or not self._ends

    def feed(self, chunk: bytes) -> str | None:
        """Check a chunk; return the reason to stop reading, if there is one."""
        seen = self._tail + chunk
        if not self.complete and END.search(seen):
            self.complete = True
        self._size += len(chunk)
        before = max(0, len(self._tail) - 2)  # a blank line may begin in the previous chunk
        ends = [found + len(line) for line in BLANK_LINES if (found := seen.rfind(line, before)) >= 0]
        self._event = len(seen) - max(ends) if ends else self._event + len(chunk)
        self._tail = seen[-TAIL:]
        if self._event > self._most_event:
            return f"it sent a single event of more than {self._most_event} bytes"
        return f"it sent a stream of more than {self._most} bytes" if self._size > self._most else None


def _last_event(piece: bytes) -> bytes:
    """Return the event at the end of a piece that says that nothing follows, if it is there."""
    return next((done for done in DONES if piece == done or piece.endswith(b"\n" + done)), b"")


class GuardedStream(httpx2.AsyncByteStream):
    """The body of a response, read within its bounds."""

    def __init__(
        self,
        stream: httpx2.AsyncByteStream,
        request: httpx2.Request,
        reading: Reading,
        watch: BodyWatch | EventWatch,
    ) -> None:
        self._stream, self._request, self._reading, self._watch = stream, request, reading, watch
        self._begun = self._done = False

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._stream)
        while True:
            try:
                # The first chunk may take long, since the prompt is processed first; the call's timeout bounds it.
                if not self._begun:
                    piece = await anext(pieces)
                else:
                    # It takes a fifth of the time of a cancel scope of anyio.
                    async with asyncio.timeout(END_SECONDS if self._done else self._reading.bounds.idle_seconds):
                        piece = await anext(pieces)
            except StopAsyncIteration:
                break
            except (TimeoutError, httpx2.TransportError) as error:
                if self._done or (self._watch.complete and isinstance(error, TimeoutError)):
                    break  # the reply is complete, and the server only keeps the connection open
                raise self._broken(error) from error
            self._begun = True
            if (refusal := self._watch.feed(piece)) is not None:
                raise ReplyRefused(refusal, request=self._request)
            if self._watch.complete and (done := _last_event(piece)):
                piece, self._done = piece.removesuffix(done), True
            if piece:
                yield piece
        if not self._watch.may_end:
            text = "its stream stopped before the end: neither a finish reason nor an end marker came"
            raise ReplyBroken(text, request=self._request)
        self._reading.ended = True

    def _broken(self, error: Exception) -> httpx2.TransportError:
        if isinstance(error, TimeoutError | httpx2.ReadTimeout):
            text = f"it fell silent for {self._reading.bounds.idle_seconds:g} s in the middle of its reply"
            return ReplySilent(text, request=self._request)
        return ReplyBroken("it closed the connection in the middle of its reply", request=self._request)

    @override
    async def aclose(self) -> None:
        await self._stream.aclose()
