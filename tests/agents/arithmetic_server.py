"""An MCP server for tests, run as a program; it notes each call with its `_meta` in the file that it is given."""

import json
import os
import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("arithmetic")
notes = Path(sys.argv[1])


def note(line: object) -> None:
    with notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


@server.tool()
def add(a: int, b: int, ctx: Context) -> int:
    """Add two numbers."""
    meta = ctx.request_context.meta or {}
    note({"tool": "add", "key": meta.get("teamwright/idempotency-key")})
    return a + b


@server.tool()
def fail() -> str:
    """Never work."""
    raise ToolError("out of order")


@server.tool()
def crash() -> str:
    """Take the whole server down."""
    os._exit(3)


@server.tool(structured_output=False)
def shout(size: int) -> str:
    """Return a text of this size."""
    return "x" * size


@server.tool()
async def wait() -> str:
    """Never answer."""
    note(os.getpid())
    await anyio.sleep_forever()
    return ""


note("started")
if len(sys.argv) > 2:
    import uvicorn

    config = uvicorn.Config(server.streamable_http_app(), fd=int(sys.argv[2]), log_level="critical")
    uvicorn.Server(config).run()
else:
    server.run("stdio")
