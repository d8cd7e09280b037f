"""The ASGI application, and serving it until a signal stops the server, over an engine that drives the runs it starts.

The application is routes, errors, and the guard before them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import cast

import uvicorn
from fastapi import APIRouter, FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from teamwright.errors import UsageError
from teamwright.history.telemetry.otlp import configured_endpoint
from teamwright.journal.location import database_url, resolve_journal
from teamwright.runtime.engine import Engine
from teamwright.runtime.people.webhook import SERVER
from teamwright.server.a2a import routes as a2a
from teamwright.server.chat import agui, chat_completions, responses
from teamwright.server.credentials import OWNER_NAME, Visitor, tokens_file
from teamwright.server.error_responses import add_handlers
from teamwright.server.event_feeds import Feeds
from teamwright.server.frames import RecentBodies
from teamwright.server.guard import LOOPBACK, Audited, Drain, Guard
from teamwright.server.mcp import routes as mcp
from teamwright.server.routes import interventions, page, records, runs, sockets
from teamwright.server.state import ServerState, open_state, visitor_name
from teamwright.wings import hooks

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
    compressed = GZipMiddleware(Drain(app, state.feeds), COMPRESSED_BYTES, COMPRESSION)  # no streams of events
    return Guard(Audited(compressed, state.audit), hosts, partial(visitor_name, state))


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
