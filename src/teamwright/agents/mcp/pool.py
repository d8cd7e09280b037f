"""The MCP servers that live as long as one run or one engine. A server starts at its first use, never before."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    from teamwright.agents.mcp.connection import McpConnection
    from teamwright.values.specs.manifest import McpTool

NOT_THE_SERVER = {"allow", "resources", "prompts"}
"""The settings that say what an agent uses of a server: agents that differ only in these share it."""

_SHARED: ContextVar[McpPool | None] = ContextVar("mcp_pool", default=None)


class McpPool:
    """Servers by declaration: each starts once, whichever members and concurrent turns use it.

    Servers with `share: engine` are those of `engine`, if it is given.
    """

    def __init__(self, engine: McpPool | None = None) -> None:
        self._engine = engine
        self._connections: dict[str, McpConnection] = {}

    def connection(self, settings: McpTool, max_bytes: int) -> McpConnection:
        """Return the connection to the server of this declaration."""
        from teamwright.agents.mcp.connection import McpConnection

        if self._engine is not None and settings.share == "engine":
            return self._engine.connection(settings, max_bytes)
        key = f"{max_bytes} {settings.model_dump_json(exclude=NOT_THE_SERVER)}"
        if key not in self._connections:
            self._connections[key] = McpConnection(settings, max_bytes)
        return self._connections[key]

    async def close(self) -> None:
        """Stop all servers at once and wait for their end; a later use starts them again."""
        if not self._connections:
            return
        connections, self._connections = self._connections, {}
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for connection in connections.values():
                    group.start_soon(connection.close)

    @contextmanager
    def shared(self) -> Generator[None]:
        """Within this block, agents use the servers of this pool."""
        token = _SHARED.set(self)
        try:
            yield
        finally:
            _SHARED.reset(token)


def shared_pool() -> McpPool | None:
    """The servers of the run that the current task belongs to, if any."""
    return _SHARED.get()
