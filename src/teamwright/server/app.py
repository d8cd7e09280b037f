"""The ASGI application: routes, errors, the guard before them, and an answer for what is open when the server stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from importlib.metadata import version
from typing import cast

import anyio
from fastapi import APIRouter, FastAPI
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from teamwright.errors import TeamwrightError
from teamwright.server.errors import add_handlers
from teamwright.server.feeds import Feeds
from teamwright.server.routes import chat_completions, interventions, page, records, runs, sockets
from teamwright.server.security.access import known_visitor
from teamwright.server.security.audit import Audited
from teamwright.server.security.guard import LOOPBACK, Guard
from teamwright.server.state import ServerState
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
    records.page_router,
    records.router,
    chat_completions.router,
)


def make_app(state: ServerState, hosts: Collection[str] = LOOPBACK) -> Guard:
    """Return the application over an open engine; it answers under these host names."""
    app = FastAPI(
        title="Teamwright",
        version=version("teamwright"),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.server = state
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

    return Guard(Audited(Drain(app, state.feeds), state.audit), hosts, identify)


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
