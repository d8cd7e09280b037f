"""A connection that sends no whole request is closed; those that work or are sockets stay, and answer at once."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import pytest
import websockets

from teamwright.journal import MemoryJournal
from teamwright.server import app as listener
from tests.kit.server import serving


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.15)


@pytest.mark.parametrize(
    "begun",
    [[], [b"GET / HTTP/1.1\r\nHost: loc"], [b"GET /x.y HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET / HT"]],
    ids=["silent", "first", "second"],
)
async def test_a_request_that_is_never_whole_is_given_up(tmp_path: Path, begun: list[bytes]) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for part in begun:
            writer.write(part)
            await asyncio.sleep(0.1)
        async with asyncio.timeout(3):
            with suppress(ConnectionResetError):
                await reader.read()
        writer.close()


async def test_a_request_that_takes_long_and_a_socket_are_left_alone(tmp_path: Path, teams: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        work = {"model": "slow", "messages": [{"role": "user", "content": "Go"}]}
        headers = {"Authorization": f"Bearer {server.token('read')}"}
        async with websockets.connect(f"ws://127.0.0.1:{server.port}/api/socket", additional_headers=headers) as socket:
            answer = await server.client("run").post("/v1/chat/completions", json=work)
            assert answer.status_code == 200
            await socket.recv()
            assert socket.close_code is None


async def test_no_answer_waits_for_an_acknowledgement(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        assert (await server.client("read").get("/api/runs")).status_code == 200
        (connection,) = server.connections
        accepted = connection.transport.get_extra_info("socket")
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
