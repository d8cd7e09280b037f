"""A server of ours on loopback, in the event loop of a test."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from teamwright import Engine
from teamwright.journal.protocol import Journal
from teamwright.server.app import FeedServer, listen, make_app, server_config
from teamwright.server.credentials import Role
from teamwright.server.guard import LOOPBACK
from teamwright.server.state import ServerState, open_state

NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of loopback: reading the certificates of the system takes longer than most tests."""
PATIENCE = 50.0
"""Seconds that a client waits for an answer: the five of the library are not enough on a busy machine."""


@dataclass
class TestServer:
    """A running server; `client(role)` has a token of that role."""

    __test__ = False
    state: ServerState
    port: int
    connections: set[Any]
    """The protocols of open connections, as uvicorn keeps them."""
    clients: list[httpx2.AsyncClient] = field(default_factory=list[httpx2.AsyncClient])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def token(self, role: Role) -> str:
        count = len(self.state.tokens.all())
        return self.state.tokens.create(f"{role}-{count}", role)

    def client(self, role: Role | None = "admin", **headers: str) -> httpx2.AsyncClient:
        shown = {} if role is None else {"Authorization": f"Bearer {self.token(role)}"}
        headers = {**shown, **headers}
        client = httpx2.AsyncClient(base_url=self.url, headers=headers, verify=NO_CERTIFICATES, timeout=PATIENCE)
        self.clients.append(client)
        return client


@asynccontextmanager
async def serving(journal: Journal, folder: Path, teams: Sequence[Path] = ()) -> AsyncGenerator[TestServer]:
    """Serve these teams over an engine, until the block ends."""
    async with Engine(journal) as engine, open_state(engine, teams, folder) as state:
        listener = listen("127.0.0.1", 0)
        server = FeedServer(server_config(make_app(state, LOOPBACK)), state.feeds)
        task = asyncio.create_task(server.serve([listener]))
        running = TestServer(state, listener.getsockname()[1], server.server_state.connections)
        try:
            while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
                await asyncio.sleep(0.005)
            yield running
        finally:
            for client in running.clients:
                await client.aclose()
            server.should_exit = True
            await task
