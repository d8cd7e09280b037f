"""What stands around every request and socket: hosts and origins, sizes, rates, headers for browsers, audit, drain.

A page of another site can make a browser send requests to this server, and a name server can give this machine's
address to any name. So the host has to be one of ours, and the origin of whatever changes something too.
The audit has a line for each request that changes something, with who sent it, from where, and its outcome. Its file
only grows, and only its owner can read it. It never holds texts of requests: those are in the journal.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import anyio
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from teamwright.journal.location import FILE_MODE, make_folder
from teamwright.server.credentials import Visitor
from teamwright.server.event_feeds import Feeds
from teamwright.values.turns.results import iso

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
LARGEST_BODY = 16 * 1024 * 1024
BODY_SECONDS = 60.0
CALLS = (200.0, 2000.0)
"""Calls of one address, per second and at once."""
MOST_OF_STRANGERS, MOST_OF_VISITOR = 200, 1000
"""Requests, streams and sockets that are open at once: of all strangers with one address, and of one visitor."""
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
GRACE_SECONDS = 1.0
"""How long requests may take after the server began to stop."""
COME_BACK = b"5"
"""Seconds after which a client may try again."""
POLICY_VIOLATION = 1008
"""The code with which a socket is closed that is not allowed."""
MOST_ADDRESSES = 10_000
"""How many addresses a rate limit remembers."""


class ConnectionLimit:
    """Counts what is open for each holder: an address, or the visitor who shows a token or session."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @contextmanager
    def held(self, holder: str) -> Generator[bool]:
        """Count a connection within this block; yields whether there may be one more."""
        if self._open[holder] >= self._most:
            yield False
            return
        self._open[holder] += 1
        try:
            yield True
        finally:
            self._open[holder] -= 1
            if not self._open[holder]:
                del self._open[holder]


class RateLimit:
    """Allows `burst` calls at once and `per_second` in the long run, for each address."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, address: str) -> float:
        """Take a call; returns 0, or the seconds after which one is allowed again."""
        tokens = self._tokens(address)
        if tokens < 1:
            return (1 - tokens) / self._rate
        self._put(address, tokens - 1)
        return 0.0

    def _tokens(self, address: str) -> float:
        tokens, at = self._buckets.get(address, (self._burst, self._clock()))
        return min(self._burst, tokens + (self._clock() - at) * self._rate)

    def _put(self, address: str, tokens: float) -> None:
        self._buckets[address] = tokens, self._clock()
        self._buckets.move_to_end(address)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)


Identify = Callable[[HTTPConnection], str | None]


TOO_LARGE = 413, f"the body is larger than {LARGEST_BODY} bytes"


class Guard:
    """Wraps an ASGI application. `hosts` are the names under which it may be called, without ports.

    `identify` returns the name of a known visitor. Their connections are counted apart from those of strangers, who may
    have the same address, so that these can't keep them out.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], identify: Identify) -> None:
        self._app, self._hosts = app, frozenset(map(str.lower, hosts))
        self._identify = identify
        self._calls = RateLimit(*CALLS)
        self._strangers, self._visitors = ConnectionLimit(MOST_OF_STRANGERS), ConnectionLimit(MOST_OF_VISITOR)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is allowed, and answer the rest."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = self._refusal(scope, headers)
        if refused is not None:
            await _refuse(scope, send, *refused)
            return
        address = str((scope.get("client") or ("", 0))[0])
        if self._calls.wait(address):
            await _refuse(scope, send, 429, "too many requests; come back in a second", "rate_limited")
            return
        name = self._identify(HTTPConnection(scope))
        held = self._strangers.held(address) if name is None else self._visitors.held(name)
        with held as allowed:
            if not allowed:
                await _refuse(scope, send, 429, "too many open connections; close some first", "rate_limited")
                return
            await self._app(scope, self._bounded(receive), _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if _name_of(host) not in self._hosts:
            return 421, f"this server is not {host!r}; see  teamwright serve --allow-host"
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        origin = headers.get("origin")
        if changes and origin is not None and _authority_of(origin) != host.lower():
            return 403, f"requests from the origin {origin!r} are not allowed"
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return 400, "the length of the body is no number"
        if len(length) > 15 or int(length) > LARGEST_BODY:
            return TOO_LARGE
        return None

    def _bounded(self, receive: Receive) -> Receive:
        read = 0
        until = anyio.current_time() + BODY_SECONDS

        async def bounded() -> Message:
            nonlocal read, until
            try:
                with anyio.fail_after(until - anyio.current_time()):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the body took longer than {BODY_SECONDS:g} seconds") from None
            if not message.get("more_body"):
                until = inf  # what comes next is that the client leaves
            read += len(message.get("body") or b"")
            if read > LARGEST_BODY:
                raise HTTPException(*TOO_LARGE)
            return message

        return bounded


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _authority_of(origin: str) -> str | None:
    """The host and port in an `Origin` header; `None` if it is no address, as `null`."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:  # such as brackets without an end
        return None


def _name_of(host: str) -> str:
    """The name in a `Host` header, without its port."""
    host = host.lower()
    return host.rpartition(":")[0] if ":" in host and not host.endswith("]") else host


async def _refuse(scope: Scope, send: Send, status: int, reason: str, code: str = "refused") -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": reason[:120]})
        return
    headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
    await _send_error(send, status, code, reason, [*headers, *([(b"retry-after", b"1")] if status == 429 else [])])


async def _send_error(send: Send, status: int, code: str, reason: str, headers: list[tuple[bytes, bytes]]) -> None:
    body = json.dumps({"error": {"code": code, "message": reason}}).encode()
    about = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*about, *headers]})
    await send({"type": "http.response.body", "body": body})


class Drain:
    """Wraps an ASGI application. Sockets are left alone: they end with the feeds."""

    def __init__(self, app: ASGIApp, feeds: Feeds) -> None:
        self._app, self._feeds = app, feeds
        self._open: set[anyio.CancelScope] = set()
        feeds.at_close(self._stop)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, unless the server stops."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        if not self._feeds.is_closing:
            with anyio.CancelScope() as cancel:
                self._open.add(cancel)
                try:
                    await self._app(scope, receive, sending)
                finally:
                    self._open.discard(cancel)
            if has_begun or not cancel.cancelled_caught:
                return
        headers = [(b"retry-after", COME_BACK), (b"connection", b"close")]
        await _send_error(send, 503, "stopping", "the server stops; come back later", headers)

    def _stop(self) -> None:
        if self._open:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._cancel)

    def _cancel(self) -> None:
        for cancel in tuple(self._open):
            cancel.cancel()


Line = TypeVar("Line", bound=BaseModel)

UNAUTHORIZED = 401


class JsonLines(Generic[Line]):
    """A file of lines of one type, which only grows. A line that a crash cut off is skipped."""

    def __init__(self, file: Path, line: type[Line]) -> None:
        self._file, self._line = file, line

    def write(self, line: Line) -> None:
        make_folder(self._file.parent)
        file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
        try:
            os.write(file, line.model_dump_json().encode() + b"\n")
        finally:
            os.close(file)

    def read(self, limit: int) -> list[Line]:
        """Return the last lines, newest first."""
        try:
            with self._file.open(encoding="utf-8", errors="replace") as lines:
                last = deque(lines, maxlen=limit)
        except FileNotFoundError:
            return []
        found: list[Line] = []
        for text in reversed(last):
            try:
                found.append(self._line.model_validate(json.loads(text)))
            except (ValueError, ValidationError):
                continue
        return found


class AuditLine(BaseModel):
    """Who did what from where. `what` is the name of the operation, `on` what it was about.

    `on.run_id` is the run that was started, steered or read; `on.fork` the one that a fork of it started.
    """

    time: str
    by: str
    role: str
    address: str
    what: str
    on: dict[str, str]
    status: int


Audit = JsonLines[AuditLine]


class Audited:
    """Wraps an ASGI application and writes a line for each request that is not only a reading."""

    def __init__(self, app: ASGIApp, audit: Audit) -> None:
        self._app, self._audit = app, audit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, and write down what was done."""
        if scope["type"] != "http" or scope["method"] in SAFE_METHODS:
            await self._app(scope, receive, send)
            return
        status = 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        scope.setdefault("state", {})
        try:
            await self._app(scope, receive, sending)
        finally:
            line = _line(scope, status)
            is_reading = scope["state"].get("is_reading", False)
            # A stranger, whose tries are limited, can't fill the disk.
            if (line.by and not is_reading) or line.status == UNAUTHORIZED:
                self._audit.write(line)


def note_call(request: HTTPConnection, method: str, *, is_reading: bool) -> None:
    """Name the method that a request calls in its audit line; one that only reads has none."""
    request.state.method, request.state.is_reading = method, is_reading


def note_run(request: HTTPConnection, run_id: str) -> None:
    """Name the run that a request has started, or is about, in its audit line."""
    request.state.started = run_id


def _line(scope: Scope, status: int) -> AuditLine:
    visitor = scope["state"].get("visitor")
    who = visitor if isinstance(visitor, Visitor) else None
    client = scope.get("client") or ("", 0)
    on = {name: str(value)[:200] for name, value in scope.get("path_params", {}).items()}
    if method := scope["state"].get("method"):
        on["method"] = method
    if started := scope["state"].get("started"):
        on["fork" if "run_id" in on else "run_id"] = started
    return AuditLine(
        time=iso(time.time()),
        by=who.name if who else "",
        role=who.role if who else "",
        address=str(client[0]),
        what=getattr(scope.get("route"), "name", "") or "unknown",
        on=on,
        status=status,
    )
