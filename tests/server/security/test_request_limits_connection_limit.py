from __future__ import annotations

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest
import websockets

from teamwright.journal import MemoryJournal
from teamwright.server.security import request_limits
from teamwright.server.security.request_limits import ConnectionLimit
from tests.kit.server import serving


def test_each_holder_has_its_own_connections_and_gets_them_back() -> None:
    limit = ConnectionLimit(2)
    with ExitStack() as stack:
        held = [stack.enter_context(limit.held(holder)) for holder in ("a", "a", "a", "b")]
        assert held == [True, True, False, True]
    with limit.held("a") as allowed:
        assert allowed
    assert limit._open == {}  # pyright: ignore[reportPrivateUsage] - nothing is kept of who has left


async def test_a_visitor_with_too_many_sockets_is_refused_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_limits, "MOST_OF_VISITOR", 2)
    async with serving(MemoryJournal(), tmp_path) as server:
        address = f"ws://127.0.0.1:{server.port}/api/socket"
        ann, bob = ({"Authorization": f"Bearer {server.token('read')}"} for _ in range(2))
        first = await websockets.connect(address, additional_headers=ann)
        async with (
            websockets.connect(address, additional_headers=ann),
            websockets.connect(address, additional_headers=bob),
        ):
            with pytest.raises(websockets.exceptions.InvalidStatus):
                await websockets.connect(address, additional_headers=ann)
            refused = await server.client(None, **ann).get("/api/runs")
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
            assert (await server.client(None, **bob).get("/api/runs")).status_code == 200
        await first.close()
        assert (await server.client(None, **ann).get("/api/runs")).status_code == 200


async def test_strangers_of_an_address_have_a_limit_and_visitors_are_not_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_limits, "MOST_OF_STRANGERS", 1)
    async with serving(MemoryJournal(), tmp_path) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n")  # and no body
        await writer.drain()
        stranger = server.client(None, Authorization="Bearer tw_wrong")
        async with asyncio.timeout(10):
            while (await stranger.get("/api/runs")).status_code != 429:  # the first one may not have arrived yet
                pass
        assert (await server.client("read").get("/api/runs")).status_code == 200
        writer.close()


async def test_a_file_of_tokens_that_can_not_be_read_is_an_error_with_a_way_on(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("read")
        (tmp_path / "server-tokens.json").write_text("[broken", encoding="utf-8")
        answer = await client.get("/api/runs")
    assert (answer.status_code, "move it away" in answer.text) == (400, True)
