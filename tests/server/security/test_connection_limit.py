from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
import websockets

from teamwright.journal import MemoryJournal
from teamwright.server.security import guard
from teamwright.server.security.connection_limit import ConnectionLimit
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
    monkeypatch.setattr(guard, "MOST_OF_VISITOR", 2)
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


async def test_an_address_has_its_own_limit_whatever_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MOST_OF_ADDRESS", 1)
    async with serving(MemoryJournal(), tmp_path) as server:
        shown = {"Authorization": f"Bearer {server.token('read')}"}
        async with websockets.connect(f"ws://127.0.0.1:{server.port}/api/socket", additional_headers=shown):
            assert (await server.client(None).get("/")).status_code == 429
