"""Tools of Model Context Protocol servers (extra `mcp`).

A server starts at its first use, so that a replay may never start it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any, cast

import anyio
from pydantic import JsonValue

from teamwright.agents.agent import Context
from teamwright.agents.attachments import FileResult, ToolValue, mcp_data, mcp_files
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.sandbox_back_ends import sandbox_problem
from teamwright.agents.tools.mcp_connection import McpConnection, ServerNotStarted, missing_folder
from teamwright.agents.tools.mcp_questions import Dialogue
from teamwright.agents.tools.protocol import (
    SHARED_POOL,
    Arguments,
    BuildOptions,
    InputNeeded,
    McpPool,
    PausingSource,
    ToolContext,
    ToolDefinition,
    ToolKind,
    ToolSource,
)
from teamwright.documents.nodes import Fields, Items, ProblemReport, Scalar, shown
from teamwright.documents.schema_check import check_secrets, check_web_address
from teamwright.errors import CallInDoubt, MissingExtra, ServiceError, ToolError, UsageError, nearest
from teamwright.values.call_limits import MAX_BYTES
from teamwright.values.people import Answer
from teamwright.values.specs.tools import (
    MCP_NEEDS,
    McpSpec,
    McpTool,
    ToolSpec,
    moved_folders,
    resolved_folders,
    sandbox_settings,
)
from teamwright.values.turns.messages import digest

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

META_KEY = "teamwright/idempotency-key"
LISTING_SECONDS = 120.0
"""How long a server may take to list its tools; it starts within this time too."""
MOST_PAGES = 100
"""How many pages the list of its tools may have."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a call is sent again to a server that only asks for that, at first and at most."""
BARE_COMMAND = re.compile(r"[\w.+-]+")
"""Matches a command that is looked up, and has neither a path nor a variable."""


class McpSource(ToolSource):
    """A server as declared by an agent. It lives as long as the run, or the engine; without either, the turn."""

    kind = "mcp"

    def __init__(
        self, name: str, settings: McpTool, max_bytes: int = MAX_BYTES, spec: str | ToolSpec | None = None
    ) -> None:
        if (settings.command is None) == (settings.url is None):
            raise UsageError(f"The MCP server {name!r} needs either a command or a url.")
        self.name, self.settings, self._max_bytes = name, settings, max_bytes
        self.sandbox = None if settings.sandbox is None else sandbox_settings(settings.sandbox)
        self.spec = spec if spec is not None else McpSpec(mcp=settings)

    def problems(self) -> Sequence[str]:
        """Return a message if the extra is not installed, and one if the server's folder is missing."""
        found = [] if find_spec("mcp") else [str(MissingExtra("mcp", f"The MCP server {self.name!r}"))]
        if why := missing_folder(self.settings):
            found.append(str(ServerNotStarted(self.name, why)))
        if self.sandbox is not None and (why := sandbox_problem(self.sandbox)):
            found.append(why)
        return found

    @asynccontextmanager
    async def open(self, ctx: Context) -> AsyncGenerator[ToolSource]:
        """Return the server for one turn: the one that the run shares, or one that ends with the block."""
        if find_spec("mcp") is None:
            raise MissingExtra("mcp", f"The MCP server {self.name!r}")
        if (pool := SHARED_POOL.get()) is not None:
            yield self._server(pool)
            return
        pool = McpPool()
        try:
            yield self._server(pool)
        finally:
            await pool.close()

    def _server(self, pool: McpPool) -> McpServer:
        connection = pool.connection(self.settings, self._max_bytes)
        return McpServer(self.name, self.settings, connection, self._max_bytes)

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
        for name, needs in MCP_NEEDS.items():
            if server.has(name) and not server.has(needs):
                report.problem(server.key_place(name), f"{owner}: {name!r} goes with {needs!r}, which is not there")
        for name in ("env", "headers"):
            check_secrets(server.get(name), name, owner, report)
        check_web_address(server.text("url"), owner, report)
        if (folder := server.text("folder")) and "${" not in str(folder.value):
            beside = Path(folder.place.file).parent
            if not _is_folder(beside / str(folder.value)):
                message = f"{owner}: there is no folder {shown(str(folder.value))} to start the server in"
                report.problem(folder.place, message, f"it is relative to {str(beside)!r}")

    def check_imports(self, fields: Fields, owner: str, report: ProblemReport) -> None:
        """Warn if the extra is not installed, and about a command that is not there."""
        server = fields.get("mcp")
        command = server.get("command") if isinstance(server, Fields) else None
        program = str(command.value).split(" ")[0] if isinstance(command, Scalar) else ""
        if isinstance(command, Items) and isinstance(first := command.items[0], Scalar):
            program = str(first.value)
        if command and BARE_COMMAND.fullmatch(program) and which(program) is None:
            message = f"{owner}: there is no command {shown(program)} on this machine"
            report.warning(command.place, message, "install it, or write its path")
        if server is not None and find_spec("mcp") is None:
            report.warning(server.place, f"{owner}: {MissingExtra('mcp', 'An MCP server')}")

    def relocate(self, settings: JsonValue, move: Callable[[str], str]) -> JsonValue:
        """Move the folder in which the server starts: without one, the folder of the manifest."""
        match settings:
            case {"command": str() | list()} if "folder" not in settings:
                settings = {**settings, "folder": "."}
            case _:
                pass
        return moved_folders(settings, "folder", move)

    def resolve(self, spec: ToolSpec, folder: Callable[[str], Path]) -> ToolSpec:
        """Make the folder in which the server starts absolute."""
        return McpSpec(mcp=resolved_folders(spec.mcp, "folder", folder)) if isinstance(spec, McpSpec) else spec

    def code(self, settings: McpTool) -> Iterable[tuple[str, str]]:
        """Return the command or the URL of the server."""
        yield "MCP server", shlex.join(settings.command) if settings.command else settings.url or ""


class McpServer(PausingSource):
    """One server, as one turn uses it."""

    kind = "mcp"

    def __init__(self, label: str, settings: McpTool, connection: McpConnection, max_bytes: int) -> None:
        self.name, self._settings, self._connection, self._max_bytes = label, settings, connection, max_bytes
        self.warnings: Sequence[str] = ()

    @property
    def identity(self) -> str:
        """A digest of the server's command or URL, without secrets."""
        settings = self._settings
        return digest(*(settings.command or ("",)), settings.url or "")

    async def definitions(self, ctx: Context) -> Sequence[ToolDefinition]:
        """Return the allowed tools of the server; its list is recorded, so that a replay needs no server."""
        recorded = await ctx.effect(f"tools-{self.name}", self._listing())
        listed = cast("list[dict[str, object]]", recorded.value)
        found: dict[str, ToolDefinition] = {}
        self.warnings = ()
        for one in listed:
            definition = ToolDefinition(**one)  # pyright: ignore[reportArgumentType]
            if found.setdefault(definition.name, definition) is not definition:
                self._warn(f"lists the tool {definition.name!r} more than once; the first is used")
        allow = self._settings.tools
        for name in allow or ():
            if name not in found:
                self._warn(f"has no tool {name!r}, which 'tools' names; {nearest(name, found).rstrip('.')}")
        return [one for one in found.values() if allow is None or one.name in allow]

    def _warn(self, text: str) -> None:
        warning = f"the MCP server {self.name!r} {text}"
        if warning not in self.warnings:
            self.warnings = (*self.warnings, warning)

    def _listing(self) -> Effect:
        """Return the effect that lists the tools of the server: if it is refused, the turn fails."""

        async def call(_: Attempt) -> Returned:
            try:
                return Returned(await self._connection.request(self.name, _list_tools))
            except (CallInDoubt, ServerNotStarted):
                raise
            except ToolError as error:
                raise ServiceError(f"The MCP server {self.name!r} does not list its tools: {error}") from error

        return Effect(
            kind="tool",
            name=self.name,
            request=self.identity,
            call=call,
            max_bytes=self._max_bytes,
            timeout=LISTING_SECONDS,
            method="tools/list",
        )

    async def call(self, name: str, arguments: Arguments, context: ToolContext) -> ToolValue:
        """Call a tool; the idempotency key is sent in `_meta`, so that a server can detect a repeated call.

        Raises `InputNeeded` if the server asks a person.
        """
        return await self._advance(name, arguments, context, Dialogue())

    async def resume(
        self, name: str, arguments: Arguments, state: JsonValue, answers: Sequence[Answer], context: ToolContext
    ) -> ToolValue:
        """Go on with a call whose server has asked; asks again what an answer does not fit."""
        dialogue, problems = Dialogue.of(state).answered(answers)
        if problems:
            raise InputNeeded(dialogue.questions(self.name, problems), dialogue.to_json())
        return await self._advance(name, arguments, context, dialogue)

    async def _advance(self, name: str, arguments: Arguments, context: ToolContext, dialogue: Dialogue) -> ToolValue:
        """Send the call, with what people have answered, until the server has a result or asks them more."""
        pause, was_refused = FIRST_PAUSE, False
        while True:
            result = await self._send(name, arguments, context, dialogue)
            if result is None:  # a server that was restarted knows its state no more; it has done nothing
                if was_refused or dialogue.state is None:
                    raise ToolError(f"The MCP server {self.name!r} did not accept the answers to what it asked.")
                dialogue, was_refused = dialogue.restarted(), True
            elif not isinstance(result, dict):
                value = _result_value(result)
                if result.is_error:
                    raise ToolError(f"The tool {name!r} failed: {value}")
                files = mcp_files(name, result.content)
                return FileResult(files, value) if files else value
            else:
                dialogue = dialogue.ask(result, self.name)
                if dialogue.waiting:
                    raise InputNeeded(dialogue.questions(self.name, {}), dialogue.to_json())
                if not dialogue.requests:  # it only asks to be called again
                    await anyio.sleep(pause)
                    pause = min(LONGEST_PAUSE, 2 * pause)

    async def _send(
        self, name: str, arguments: Arguments, context: ToolContext, dialogue: Dialogue
    ) -> CallToolResult | dict[str, Any] | None:
        """Send the call once; return its result, what the server asks, or `None` if it refuses what it asked for."""
        from mcp import MCPError
        from mcp.types import HEADER_MISMATCH, INVALID_PARAMS, CallToolResult, ElicitResult

        meta = cast("Any", {META_KEY: context.idempotency_key})
        responses = {key: ElicitResult.model_validate(one) for key, one in dialogue.responses.items()}

        async def send(client: Client) -> CallToolResult | dict[str, Any] | None:
            async def once() -> CallToolResult | dict[str, Any]:
                result = await client.session.call_tool(
                    name,
                    dict(arguments),
                    meta=meta,
                    input_responses=cast("Any", responses) or None,
                    request_state=dialogue.state,
                    allow_input_required=True,
                )
                if isinstance(result, CallToolResult):
                    return result
                return result.model_dump(mode="json", by_alias=True, exclude_none=True)

            try:
                return await once()
            except MCPError as error:
                if error.code == INVALID_PARAMS and dialogue.rounds:
                    return None
                if error.code != HEADER_MISMATCH:
                    raise
            await _list_tools(client, is_fresh=True)  # which fields travel in headers, it knows of the list
            return await once()

        return await self._connection.request(self.name, send)


async def _list_tools(client: Client, *, is_fresh: bool = False) -> JsonValue:
    """Request the list of tools from the server, as JSON for the record."""
    tools: list[JsonValue] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh" if is_fresh else "use")
        for one in page.tools:
            parameters = cast("dict[str, JsonValue]", one.input_schema)
            tools.append({"name": one.name, "description": one.description or "", "parameters": parameters})
        if (cursor := page.next_cursor) is None:
            return tools
    raise ToolError(f"its list has more than {MOST_PAGES} pages")


def _result_value(result: CallToolResult) -> JsonValue:
    """Return a tool's result without its files: structured content if there is any, else text, else the blocks."""
    if result.structured_content is not None:
        value = cast("JsonValue", result.structured_content)
        # Servers wrap a value that is not an object under this name.
        return value["result"] if isinstance(value, dict) and list(value) == ["result"] else value
    others = (block for block in result.content if mcp_data(block) is None)
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in others]
    texts = [str(block["text"]) for block in blocks if block.get("type") == "text"]
    if len(texts) == len(blocks):
        return "\n".join(texts)
    return cast("JsonValue", blocks)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False
