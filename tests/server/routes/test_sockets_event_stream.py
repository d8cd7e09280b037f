"""A client that takes nothing is dropped, and what feeds its stream is closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest

from teamwright.server.routes import sockets as event_stream
from teamwright.server.routes.sockets import EventStream


async def test_a_client_that_takes_nothing_ends_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "SEND_SECONDS", 0.1)
    is_closed = False

    async def texts() -> AsyncGenerator[str]:
        nonlocal is_closed
        try:
            while True:
                yield "data: x\n\n"
        finally:
            is_closed = True

    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)
        if len(sent) == 3:
            await anyio.sleep_forever()

    async with asyncio.timeout(3):
        await EventStream(texts()).stream_response(send)
    assert (len(sent), is_closed) == (3, True)
    assert sent[0]["headers"][0] == (b"content-type", b"text/event-stream; charset=utf-8")
