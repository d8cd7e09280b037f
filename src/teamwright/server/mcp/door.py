"""Opens the MCP server of a server at its first request. It must never import the protocol's library before.

A server that is never asked over MCP pays nothing for it, neither time at its start nor memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus

from teamwright.errors import MissingExtra
from teamwright.server.guard import LARGEST_BODY

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.types import Receive, Scope, Send

    from teamwright.server.mcp.team_server import TeamServer
    from teamwright.server.state import ServerState


WATCHER = "_shutdown_watcher"
LIBRARIES = ("mcp", "mcp_types")


class McpDoor:
    """The way in over HTTP. Each request stands for itself, so that none depends on a server that was killed."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._opening = anyio.Lock()
        self._sessions: StreamableHTTPSessionManager | None = None

    def make_server(self, state: ServerState) -> TeamServer:
        """Make the server of the protocol; raises `MissingExtra`."""
        with needs_extra("The MCP server"):
            from teamwright.server.mcp.team_server import TeamServer

            return TeamServer(state)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; raises `MissingExtra` where the library of the protocol is not installed."""
        async with self._opening:
            sessions = self._sessions or await self._open()
        await sessions.handle_request(scope, receive, send)

    async def _open(self) -> StreamableHTTPSessionManager:
        server = self.make_server(self._state)
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        sessions = StreamableHTTPSessionManager(server.protocol, stateless=True, max_request_body_size=LARGEST_BODY)
        await self._state.background.group().start(_serve, sessions)
        self._sessions = sessions
        return sessions


@contextmanager
def needs_extra(what: str) -> Generator[None]:
    """Import the library of the protocol within the block; raises `MissingExtra` if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in LIBRARIES:
            raise
        raise MissingExtra("mcp", what) from error


async def _serve(
    sessions: StreamableHTTPSessionManager, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    try:
        async with sessions.run():
            task_status.started()
            await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await _end_watcher()


async def _end_watcher() -> None:
    """End the task with which the library's streams watch for the end of the process: it has no parent that would."""
    left = [task for task in asyncio.all_tasks() if getattr(task.get_coro(), "__name__", "") == WATCHER]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
