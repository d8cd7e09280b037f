"""Tools of Model Context Protocol servers (extra `mcp`).

A server starts at its first use, so that a replay may never start it. Nothing else may import `mcp`.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO, cast

import anyio
from anyio.abc import TaskGroup, TaskStatus
from pydantic import JsonValue

from teamwright.agents.contract.context import Context
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.agents.tools.kind import BuildOptions, ToolKind
from teamwright.agents.tools.protocol import Arguments, ToolContext, ToolDefinition, ToolSource
from teamwright.documents.field_checks import check_secrets, check_web_address
from teamwright.documents.nodes import Fields
from teamwright.documents.problems import ProblemReport
from teamwright.errors import AgentError, MissingExtra, Refused, ServiceError, ToolError, UsageError
from teamwright.values.limits.reply import MAX_BYTES
from teamwright.values.specs.manifest import McpSpec, McpTool, ToolSpec
from teamwright.values.turns.messages import digest

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

META_KEY = "teamwright/idempotency-key"
IDLE_SECONDS = 300.0
"""How long a stream may stay silent: a server sends nothing while it works on a call."""
RESULT_FACTOR = 4
"""How much larger than its result a response may be: it contains the result twice."""


class McpSource(ToolSource):
    """A server as declared by an agent. It starts at the first use within a turn and stops with the turn."""

    kind = "mcp"

    def __init__(
        self, name: str, settings: McpTool, max_bytes: int = MAX_BYTES, spec: str | ToolSpec | None = None
    ) -> None:
        self.name, self.settings, self._max_bytes = name, settings, max_bytes
        self.spec = spec if spec is not None else McpSpec(mcp=settings)

    def problems(self) -> Sequence[str]:
        """Return a message if the extra is not installed."""
        return () if find_spec("mcp") else (str(MissingExtra("mcp", f"The MCP server {self.name!r}")),)

    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        """Open a server for one turn, in its own task group; leaving the block stops it."""
        server = McpServer(self.name, self.settings, self._max_bytes)
        failure: Exception | None = None
        async with anyio.create_task_group() as group:
            server.home = group
            try:
                yield server
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group that would wrap it
                failure = error
            finally:
                server.stop()
        if failure is not None:
            raise failure

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Open a server only to list its tools."""
        async with self.open(ctx) as server:
            return await server.definitions(ctx)

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        """Raise `ToolError`: tools can be called only on an opened source."""
        raise ToolError(f"The MCP server {self.name!r} is not open.")


class McpKind(ToolKind[McpTool]):
    """`{mcp: {command: …}}` or `{mcp: {url: …}}`."""

    name = "mcp"
    model = McpTool
    noun = "MCP server"

    def build(self, settings: McpTool, options: BuildOptions) -> ToolSource:
        """Create the source; a server without a name gets a number."""
        number = 1 + sum(one.kind == self.name for one in options.earlier)
        return McpSource(options.name or f"mcp-{number}", settings, options.max_bytes, options.spec)

    def check(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Report conflicting fields, invalid addresses and secrets in plain text."""
        server = fields.get("mcp")
        if not isinstance(server, Fields):
            return
        if server.has("command") == server.has("url"):
            report.problem(server.place, f"{owner}: an MCP server needs either 'command' or 'url'", "give one of them")
        for name, needs in (("args", "command"), ("env", "command"), ("headers", "url")):
            if server.has(name) and not server.has(needs):
                report.problem(server.key_place(name), f"{owner}: {name!r} goes with {needs!r}, which is not there")
        for name in ("env", "headers"):
            check_secrets(server.get(name), name, owner, report)
        check_web_address(server.text("url"), owner, report)

    def check_imports(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Warn if the extra is not installed."""
        server = fields.get("mcp")
        if server is not None and find_spec("mcp") is None:
            report.warning(server.place, f"{owner}: {MissingExtra('mcp', 'An MCP server')}")

    def code(self, settings: McpTool) -> Iterable[tuple[str, str]]:
        """Return the command or the URL of the server."""
        command = " ".join((settings.command, *settings.args)) if settings.command else None
        yield "MCP server", command or settings.url or ""


class McpServer(ToolSource):
    """One server for one turn. `home` is the task group that runs its connection."""

    kind = "mcp"
    home: TaskGroup

    def __init__(self, label: str, settings: McpTool, max_bytes: int = MAX_BYTES) -> None:
        if (settings.command is None) == (settings.url is None):
            raise UsageError(f"The MCP server {label!r} needs either a command or a url.")
        if find_spec("mcp") is None:
            raise MissingExtra("mcp", f"The MCP server {label!r}")
        self.name, self._settings, self._max_bytes = label, settings, max_bytes
        self._stopped = anyio.Event()
        self._lock = anyio.Lock()
        self._client: Client | None = None

    @property
    def identity(self) -> str:
        """A digest of the server's command or URL, without secrets."""
        settings = self._settings
        return digest(settings.command or "", *settings.args, settings.url or "")

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return the allowed tools of the server; its list is recorded, so that a replay needs no server."""

        async def call(_: Attempt) -> Returned:
            return Returned(await self._list_tools())

        effect = Effect(kind="tool", name=self.name, request=self.identity, call=call, max_bytes=self._max_bytes)
        recorded = await ctx.effect(f"tools-{self.name}", effect)
        listed = cast("list[dict[str, object]]", recorded.value)
        found = [ToolDefinition(**one) for one in listed]  # pyright: ignore[reportArgumentType]
        allow = self._settings.allow
        return [one for one in found if allow is None or one.name in allow]

    async def _list_tools(self) -> JsonValue:
        """Request the list of tools from the server, as JSON for the record."""
        from mcp import MCPError

        client = await self._connect()
        tools: list[JsonValue] = []
        cursor: str | None = None
        while True:
            try:
                page = await client.list_tools(cursor=cursor)
            except MCPError as error:
                raise ServiceError(f"The MCP server {self.name!r} does not list its tools: {error.message}") from error
            for one in page.tools:
                parameters = cast("dict[str, JsonValue]", one.input_schema)
                tools.append({"name": one.name, "description": one.description or "", "parameters": parameters})
            if (cursor := page.next_cursor) is None:
                return tools

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> JsonValue:
        """Call a tool; the idempotency key is sent in `_meta`, so that a server can detect a repeated call."""
        client = await self._connect()
        result = await client.call_tool(name, dict(arguments), meta={META_KEY: context.idempotency_key})
        value = _result_value(result)
        if result.is_error:
            raise ToolError(f"The tool {name!r} failed: {value}")
        return value

    def stop(self) -> None:
        """Stop the server."""
        self._stopped.set()

    async def _connect(self) -> Client:
        async with self._lock:
            client = self._client or await self.home.start(self._hold_connection)
            self._client = client
            return client

    async def _hold_connection(self, *, task_status: TaskStatus[Client]) -> None:
        """Hold the connection open until `stop`: it has cancel scopes, so one task must open and close it."""
        started = False
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
            try:
                async with AsyncExitStack() as stack:
                    client = await stack.enter_async_context(await self._client_for(stack, stderr))
                    started = True
                    task_status.started(client)
                    await self._stopped.wait()
            except Exception as error:
                # Once started, a broken server fails the calls made to it.
                if not started:
                    raise self._start_failure(error, stderr) from error

    async def _client_for(self, stack: AsyncExitStack, stderr: TextIO) -> Client:
        from mcp import Client, StdioServerParameters, stdio_client
        from mcp.client.streamable_http import streamable_http_client

        from teamwright.agents.model.http_transport import GuardedTransport, ReadBounds, guarded_client

        settings = self._settings
        if settings.url is not None:
            bounds = ReadBounds(IDLE_SECONDS, RESULT_FACTOR * self._max_bytes)
            http = guarded_client(GuardedTransport(bounds=bounds, streams_end=False), settings.headers, IDLE_SECONDS)
            await stack.enter_async_context(http)
            return Client(streamable_http_client(settings.url, http_client=http))
        assert settings.command is not None
        parameters = StdioServerParameters(
            command=settings.command, args=list(settings.args), env=dict(settings.env) or None
        )
        return Client(stdio_client(parameters, errlog=stderr))

    def _start_failure(self, error: Exception, stderr: TextIO) -> AgentError:
        stderr.seek(0)
        lines = stderr.read().strip().splitlines()
        reason = lines[-1].strip() if lines else f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and self._settings.command is not None:
            return Refused(f"The MCP server {self.name!r} can't be started ({reason}); check its command.")
        return ServiceError(f"The MCP server {self.name!r} did not answer ({reason}).")


def _result_value(result: CallToolResult) -> JsonValue:
    """Return a tool's result: structured content if there is any, else text, else the content blocks."""
    if result.structured_content is not None:
        value = cast("JsonValue", result.structured_content)
        # Servers wrap a value that is not an object under this name.
        return value["result"] if isinstance(value, dict) and list(value) == ["result"] else value
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in result.content]
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text"]
    if len(texts) == len(blocks):
        return "\n".join(texts)
    return cast("JsonValue", blocks)
