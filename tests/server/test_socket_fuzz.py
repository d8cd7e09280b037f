"""Sockets under nonsense: whatever a client sends, the server answers, closes or goes on, and never fails."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import websockets

from teamwright.journal import MemoryJournal
from tests.kit.server import TestServer, serving

SEED = 17
COMMANDS: list[Any] = [
    {"follow": "one", "after": 0, "form": "events"},
    {"follow": "one", "after": 2**53 - 1},
    {"follow": "nothing"},
    {"follow": "../../etc"},
    {"unfollow": "one"},
    {"unfollow": "never followed"},
    {"follow": "x" * 10_000},
    {"follow": "one", "after": -1},
    {"follow": "one", "after": 1e300},
    {"follow": None},
    {"follow": "one", "more": 1},
    [],
    "text",
    None,
    7,
]
QUERIES = (
    "", "?after=0", "?after=3", "?after=-1", "?after=x", "?after=99999999999999999999", "?form=odd", "?after=1e9",
    "?after=2&after=3", "?form=events", "?%00", "?after=",
)  # fmt: skip


def message(draw: random.Random) -> str | bytes:
    match draw.randrange(5):
        case 0:
            return draw.randbytes(draw.randrange(200))
        case 1:
            return "x" * draw.randrange(3000)
        case 2:
            return json.dumps(draw.choice(COMMANDS))[: draw.randrange(1, 60)]
        case _:
            return json.dumps(draw.choice(COMMANDS))


async def visit(server: TestServer, token: str, draw: random.Random) -> None:
    """One client: any path, some messages, some reading, and any end."""
    run = draw.choice(["one", "two", "none", "%2e%2e", "a" * 300, "%F0%9F"])
    path = draw.choice(["/api/socket", f"/api/runs/{run}/socket{draw.choice(QUERIES)}"])
    headers = {"Authorization": f"Bearer {token}"}
    errors = (websockets.exceptions.WebSocketException, TimeoutError, OSError, EOFError)
    with suppress(*errors):
        async with websockets.connect(f"ws://127.0.0.1:{server.port}{path}", additional_headers=headers) as socket:
            with suppress(*errors):
                for _ in range(draw.randrange(6)):
                    await socket.send(message(draw))
                async with asyncio.timeout(0.05):
                    async for text in socket:
                        assert "Traceback" not in str(text)
            if draw.random() < 0.5:
                socket.transport.abort()  # gone without a word


@pytest.mark.timeout(120)
async def test_no_client_breaks_the_server(tmp_path: Path, teams: Path, caplog: pytest.LogCaptureFixture) -> None:
    draw = random.Random(SEED)
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        client, token = server.client("run"), server.token("read")
        for run_id, team in (("one", "pair"), ("two", "gated")):
            await client.post("/api/runs", json={"team": team, "task": "Go", "run_id": run_id})
        with caplog.at_level(logging.ERROR):
            for _ in range(30):
                async with asyncio.TaskGroup() as visits:
                    for _ in range(5):
                        visits.create_task(visit(server, token, random.Random(draw.random())))
        assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert (await client.get("/api/runs")).status_code == 200
        async with asyncio.timeout(10):  # nothing is left of them
            while any(map(server.state.feeds.is_followed, ("one", "two"))):  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.05)


async def test_a_message_that_is_too_large_ends_the_socket(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        headers = {"Authorization": f"Bearer {server.token('read')}"}
        async with websockets.connect(f"ws://127.0.0.1:{server.port}/api/socket", additional_headers=headers) as socket:
            with pytest.raises(websockets.exceptions.ConnectionClosed):
                await flood(socket)
            assert socket.close_code in {1009, 1006}


async def flood(socket: websockets.ClientConnection) -> None:
    await socket.send("x" * 100_000)
    while True:
        await socket.recv()
