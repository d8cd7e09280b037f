"""Tools behind servers that speak the Model Context Protocol (extra `mcp`).

A server starts when it is first needed, which on a replay may be never. Nothing else may import `mcp`.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic import JsonValue

from teamwright.agents.tools.python import Arguments, Offer
from teamwright.agents.tools.toolbox import Tool
from teamwright.errors import AgentError, MissingExtra, Refused, ServiceError, ToolError, UsageError
from teamwright.values.manifest import McpTool
from teamwright.values.messages import digest
from teamwright.values.reply_limits import MAX_BYTES

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

META_KEY = "teamwright/idempotency-key"
IDLE_SECONDS = 300.0
"""How long a server may keep a stream open without a word; one that works on a call says nothing."""
RESULT_FACTOR = 4
"""By how much what a server sends may be larger than the result in it, which stands there twice."""


class McpServer:
    """One server, for one turn. `home` is the task group that it lives in."""

    home: TaskGroup

    def __init__(self, label: str, spec: McpTool, max_bytes: int = MAX_BYTES) -> None:
        if (spec.command is None) == (spec.url is None):
            raise UsageError(f"The MCP server {label!r} needs either a command or a url.")
        if find_spec("mcp") is None:
            raise MissingExtra("mcp", f"The MCP server {label!r}")
        self.label, self._spec, self._max_bytes = label, spec, max_bytes
        self._stopped = anyio.Event()
        self._lock = anyio.Lock()
        self._client: Client | None = None

    @property
    def identity(self) -> str:
        """A digest of which server this is, without its secrets."""
        spec = self._spec
        return digest(spec.command or "", *spec.args, spec.url or "")

    async def offers(self) -> JsonValue:
        """Ask the server what it offers, as data to be recorded."""
        from mcp import MCPError

        client = await self._connected()
        offers: list[JsonValue] = []
        cursor: str | None = None
        while True:
            try:
                page = await client.list_tools(cursor=cursor)
            except MCPError as error:
                raise ServiceError(f"The MCP server {self.label!r} does not list its tools: {error.message}") from error
            for one in page.tools:
                parameters = cast("dict[str, JsonValue]", one.input_schema)
                offers.append({"name": one.name, "description": one.description or "", "parameters": parameters})
            if (cursor := page.next_cursor) is None:
                return offers

    def tools(self, offers: JsonValue) -> list[Tool]:
        """The recorded offers as tools, without those that the declaration leaves out."""
        allow = self._spec.allow
        found = [Offer(**one) for one in cast("list[dict[str, object]]", offers)]  # pyright: ignore[reportArgumentType]
        return [McpCall(self, one) for one in found if allow is None or one.name in allow]

    async def call(self, name: str, arguments: Arguments, idempotency_key: str) -> JsonValue:
        """Call a tool; the key travels in `_meta`, where a server that knows it can avoid doing a thing twice."""
        client = await self._connected()
        result = await client.call_tool(name, dict(arguments), meta={META_KEY: idempotency_key})
        value = _plain(result)
        if result.is_error:
            raise ToolError(f"The tool {name!r} failed: {value}")
        return value

    def stop(self) -> None:
        """Let the server end."""
        self._stopped.set()

    async def _connected(self) -> Client:
        async with self._lock:
            client = self._client or await self.home.start(self._live)
            self._client = client
            return client

    async def _live(self, *, task_status: TaskStatus[Client]) -> None:
        """Hold the connection from start to end: it has cancel scopes, so one task must open and close it."""
        started = False
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
            try:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(await self._client_for(stack, complaints))
                    started = True
                    task_status.started(client)
                    await self._stopped.wait()
            except Exception as error:
                # Once it runs, whoever calls a broken server sees that for himself.
                if not started:
                    raise self._could_not_start(error, complaints) from error

    async def _client_for(self, stack: AsyncExitStack, complaints: TextIO) -> Client:
        from mcp import Client, StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        from teamwright.agents.model.http_transport import GuardedTransport, ReadBounds, guarded_client

        spec = self._spec
        if spec.url is not None:
            bounds = ReadBounds(IDLE_SECONDS, RESULT_FACTOR * self._max_bytes)
            http = guarded_client(GuardedTransport(bounds=bounds, streams_end=False), spec.headers, IDLE_SECONDS)
            await stack.enter_async_context(http)
            return Client(streamable_http_client(spec.url, http_client=http))
        assert spec.command is not None
        parameters = StdioServerParameters(command=spec.command, args=list(spec.args), env=dict(spec.env) or None)
        return Client(stdio_client(parameters, errlog=complaints))

    def _could_not_start(self, error: Exception, complaints: TextIO) -> AgentError:
        complaints.seek(0)
        lines = complaints.read().strip().splitlines()
        reason = lines[-1].strip() if lines else f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and self._spec.command is not None:
            return Refused(f"The MCP server {self.label!r} can't be started ({reason}); check its command.")
        return ServiceError(f"The MCP server {self.label!r} did not answer ({reason}).")


@asynccontextmanager
async def running(servers: Sequence[McpServer]) -> AsyncGenerator[None]:
    """Give servers a task group to live in; each starts at its first use and has ended when this is left."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        for server in servers:
            server.home = group
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised again below, outside the group that would wrap it
            failure = error
        finally:
            for server in servers:
                server.stop()
    if failure is not None:
        raise failure


class McpCall:
    """One tool of a server."""

    def __init__(self, server: McpServer, offer: Offer) -> None:
        self._server, self.offer = server, offer

    def fit(self, arguments: Arguments) -> Arguments:
        """Leave the check to the server, which knows its own schema best."""
        return arguments

    async def call(self, arguments: Arguments, *, idempotency_key: str, place: str) -> JsonValue:
        """Call it at the server."""
        return await self._server.call(self.offer.name, arguments, idempotency_key)


def _plain(result: CallToolResult) -> JsonValue:
    """What a tool returned: structured where the server says so, text where that is all there is."""
    if result.structured_content is not None:
        value = cast("JsonValue", result.structured_content)
        # Servers wrap what is not an object, under this one name.
        return value["result"] if isinstance(value, dict) and list(value) == ["result"] else value
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text"]
    if len(texts) == len(blocks):
        return "\n".join(texts)
    return cast("JsonValue", blocks)
