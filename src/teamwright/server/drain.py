"""Ends the requests that are open when the server stops: each gets an answer that says so, and no internal error."""

from __future__ import annotations

import asyncio
import json

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from teamwright.server.feeds.feed import Feeds

GRACE_SECONDS = 1.0
"""How long requests may take after the server began to stop."""
COME_BACK = b"5"
"""Seconds after which a client may try again."""


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
