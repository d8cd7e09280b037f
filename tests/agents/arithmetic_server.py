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
def crash(times: int = 99) -> str:
    """Take the whole server down, up to so many times."""
    note("crash")
    if notes.read_text().count('"crash"') <= times:
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(3)
    return "survived"


@server.tool(structured_output=False)
def shout(size: int) -> str:
    """Return a text of this size."""
    return "x" * size


@server.tool()
async def wait() -> str:
    """Answer once "go" is in the notes."""
    note(os.getpid())
    while '"go"' not in notes.read_text():  # noqa: ASYNC110 - another process writes it
        await anyio.sleep(0.02)
    return "went"


@server.tool()
def where() -> dict[str, object]:
    """Return the process, its folder and the names of its variables."""
    found: dict[str, object] = {"pid": os.getpid(), "cwd": str(Path.cwd()), "env": sorted(os.environ)}
    note({"where": found})
    return found


note("started")
if len(sys.argv) > 2:
    import uvicorn

    config = uvicorn.Config(server.streamable_http_app(), fd=int(sys.argv[2]), log_level="critical")
    uvicorn.Server(config).run()
else:
    server.run("stdio")
