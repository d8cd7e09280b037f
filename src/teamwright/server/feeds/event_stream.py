"""A stream of server-sent events whose client is dropped if it takes nothing for a while."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

import anyio
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from typing_extensions import override

SEND_SECONDS = 10.0
"""How long a client may take for one item of a stream, or a few items of a socket, before it is dropped."""


class EventStream(StreamingResponse):
    """Sends texts as they come; a client that does not take one in time loses its connection."""

    media_type = "text/event-stream"

    def __init__(self, texts: AsyncGenerator[str], ended: Callable[[], None] | None = None) -> None:
        """Send these texts; `ended` is called once the client has all of them, or has left."""
        super().__init__(texts)
        self._texts, self._ended = texts, ended

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            if self._ended is not None:
                self._ended()

    @override
    async def stream_response(self, send: Send) -> None:
        """Send all texts, unless the client is too slow."""

        async def sending(message: Message) -> None:
            with anyio.fail_after(SEND_SECONDS):
                await send(message)

        async with aclosing(self._texts):
            with suppress(TimeoutError):  # an end without the end of the body closes the connection
                await super().stream_response(sending)
