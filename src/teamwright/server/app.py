"""The ASGI application, and serving it until a signal stops the server, over an engine that drives the runs it starts.

The application is routes, errors, the guard before them, and an answer for what is open when the server stops.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import cast

import anyio
import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from teamwright.errors import TeamwrightError, UsageError
from teamwright.history.telemetry.environment import configured_endpoint
from teamwright.journal.location import database_url, resolve_journal
from teamwright.runtime.engine import Engine
from teamwright.runtime.people.webhook import SERVER
from teamwright.server.a2a import routes as a2a
from teamwright.server.chat import agui, chat_completions, responses
from teamwright.server.credentials import OWNER_NAME, Visitor, tokens_file
from teamwright.server.error_responses import add_handlers
from teamwright.server.event_feeds import Feeds
from teamwright.server.frames import RecentBodies
from teamwright.server.guard import LOOPBACK, Audited, Guard
from teamwright.server.mcp import routes as mcp
from teamwright.server.routes import interventions, page, records, runs, sockets
from teamwright.server.state import ServerState, known_visitor, open_state
from teamwright.wings import hooks

GRACE_SECONDS = 1.0
"""How long requests may take after the server began to stop."""
COME_BACK = b"5"
"""Seconds after which a client may try again."""
OWN_ROUTERS = (
    page.session_router,
    runs.team_router,
    runs.router,
    sockets.router,
    interventions.router,
    interventions.inbox_router,
    records.audit_router,
    records.files_router,
    records.page_router,
    records.router,
    records.operations_router,
    records.metrics_router,
    chat_completions.router,
    responses.router,
    mcp.router,
    a2a.router,
    agui.router,
)
COMPRESSED_BYTES, COMPRESSION = 1000, 5
"""The smallest body that is compressed, and how hard: a history of page events becomes a thirtieth of its size."""
LARGEST_MESSAGE = 64 * 1024
"""The largest message that a socket takes, in bytes."""
HEAD_SECONDS = 10.0
OWNER = Visitor(OWNER_NAME, "admin")
"""Who started the server, and opens the address that it prints."""


def make_app(state: ServerState, hosts: Collection[str] = LOOPBACK, door: mcp.McpDoor | None = None) -> Guard:
    """Return the application over an open engine; it answers under these host names, and over MCP through `door`."""
    app = FastAPI(
        title="Teamwright",
        version=version("teamwright"),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.server = state
    app.state.mcp = door or mcp.McpDoor(state)
    of_wings = cast("list[APIRouter]", hooks("routes"))
    for router in (*OWN_ROUTERS, *of_wings, page.router):  # the page last: it has an answer for every address
        app.router.routes.extend(router.routes)  # `include_router` would build each route again, at its first request
    add_handlers(app)

    def identify(connection: HTTPConnection) -> str | None:
        try:
            visitor = known_visitor(connection, state)
        except TeamwrightError:  # the route says what is wrong with the tokens
            return None
        return None if visitor is None else visitor.name

    compressed = GZipMiddleware(Drain(app, state.feeds), COMPRESSED_BYTES, COMPRESSION)  # no streams of events
    return Guard(Audited(compressed, state.audit), hosts, identify)


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
        await _refuse(send)

    def _stop(self) -> None:
        if self._open:
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._cancel)

    def _cancel(self) -> None:
        for cancel in tuple(self._open):
            cancel.cancel()


async def _refuse(send: Send) -> None:
    body = json.dumps({"error": {"code": "stopping", "message": "the server stops; come back later"}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"retry-after", COME_BACK), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 503, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server serves, and where. `hosts` are further names under which it may be called."""

    folders: tuple[Path, ...]
    host: str = "127.0.0.1"
    port: int = 0
    hosts: tuple[str, ...] = ()
    journal: Path | None = None


def server_engine(given: Path | None) -> Engine:
    """Return the engine of a server; in Postgres, it has the limits and the workers of the cluster."""
    journal, url, otlp = resolve_journal(given), database_url(given), configured_endpoint()
    if url is None:
        return Engine(RecentBodies(journal), otlp=otlp)
    shared = {name: part for parts in hooks("shared_engine") for name, part in parts(url, journal).items()}
    return Engine(RecentBodies(journal), otlp=otlp, **shared)


async def serve(settings: ServerSettings, started: Callable[[str], None]) -> None:
    """Serve until a signal arrives; `started` gets the address to open, with a code that works once."""
    host = settings.host
    listener = listen(host, settings.port)
    data = tokens_file(settings.journal).parent
    async with (
        server_engine(settings.journal) as engine,
        open_state(engine, settings.folders, data) as state,
    ):
        app = make_app(state, {*LOOPBACK, _shown(host), *settings.hosts})
        number = listener.getsockname()[1]
        server = FeedServer(server_config(app), state.feeds)
        address = f"http://{_shown(host)}:{number}"
        os.environ.setdefault(SERVER, address)
        started(f"{address}/?code={state.sessions.new_code(OWNER)}")
        await server.serve([listener])


def server_config(app: ASGIApp) -> uvicorn.Config:
    """Return the settings of uvicorn. Frames are not compressed, which would cost each socket memory and time."""
    return uvicorn.Config(
        app,
        log_level="warning",
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # a client could forge the addresses of the audit
        http=TimedProtocol,
        ws="websockets-sansio",
        ws_max_size=LARGEST_MESSAGE,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=64 * 1024,
    )


class TimedProtocol(H11Protocol):
    """Closes a connection that has waited for the head of a request at two looks, `HEAD_SECONDS` apart.

    Uvicorn waits for it without end, so that a few clients could take all connections of a server.
    """

    _look: asyncio.TimerHandle | None = None
    _waited: bool = False
    _after: RequestResponseCycle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to look."""
        super().connection_made(transport)
        self._look_later()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def _look_later(self) -> None:
        self._look = self.loop.call_later(HEAD_SECONDS, self._check)

    def _check(self) -> None:
        if self.transport.get_protocol() is not self:  # it is a socket now
            return
        cycle = cast("RequestResponseCycle | None", self.cycle)
        waits = (cycle is None or cycle.response_complete) and self.timeout_keep_alive_task is None
        if waits and self._waited and cycle is self._after:
            self.transport.abort()
            return
        self._waited, self._after = waits, cycle
        self._look_later()


class FeedServer(uvicorn.Server):
    """Ends all feeds first when it stops, so that no client holds it up."""

    def __init__(self, config: uvicorn.Config, feeds: Feeds) -> None:
        super().__init__(config)
        self._feeds = feeds

    @override
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._feeds.close()
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; raises `UsageError` where that is not possible.

    It names TCP as its protocol: only then asyncio sets `TCP_NODELAY` on the connections, without which the second part
    of an answer waits for the client to acknowledge the first.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host.strip("[]"), port))
    except OSError as error:
        listener.close()
        raise UsageError(f"Can't listen on {host}:{port}: {error.strerror}; choose another with --port.") from error
    listener.listen(2048)
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
