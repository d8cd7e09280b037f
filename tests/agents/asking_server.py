"""An MCP server for tests whose tools ask people, run as a program; it notes what it does in the file that it is given.

It seals the state that it hands out with a key of its process, as the library does by default.
"""

import json
import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)

server = MCPServer("asking")
notes = Path(sys.argv[1])


def note(ctx: Context, what: str) -> None:
    key = (ctx.request_context.meta or {}).get("teamwright/idempotency-key")
    with notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"did": what, "key": key}) + "\n")


def form(message: str, required: tuple[str, ...] = (), **fields: dict[str, object]) -> ElicitRequest:
    schema = {"type": "object", "properties": fields, "required": list(required)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def ask(state: str | None = None, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests or None, request_state=state)


def said(ctx: Context, key: str) -> ElicitResult | None:
    found = (ctx.input_responses or {}).get(key)
    return found if isinstance(found, ElicitResult) else None


CONFIRM = form("Delete it?", ("sure",), sure={"type": "boolean", "description": "there is no way back"})


@server.tool(structured_output=False)
async def delete(name: str, ctx: Context) -> str | InputRequiredResult:
    """Delete something, once a person is sure."""
    if (answer := said(ctx, "confirm")) is None:
        note(ctx, f"asked about {name}")
        return ask(f"about {name}", confirm=CONFIRM)
    if answer.action != "accept" or not (answer.content or {}).get("sure"):
        return f"kept: {answer.action}"
    note(ctx, f"deleted {name}")
    return f"deleted {name} ({ctx.request_state})"


@server.tool(structured_output=False)
async def order(ctx: Context) -> str | InputRequiredResult:
    """Order something: two questions at once, and then one more."""
    if ctx.request_state is None:
        size = form("Which size?", ("size",), size={"type": "string", "enum": ["small", "large"]})
        count = form("How many?", ("count",), count={"type": "integer", "minimum": 1})
        return ask("first", size=size, count=count)
    if ctx.request_state == "first":
        size, count = said(ctx, "size"), said(ctx, "count")
        assert size is not None
        assert count is not None
        chosen = json.dumps([size.content, count.content])
        person: dict[str, dict[str, object]] = {
            "name": {"type": "string"},
            "news": {"type": "boolean", "default": False},
        }
        return ask(chosen, who=form("For whom?", ("name",), **person))
    who = said(ctx, "who")
    assert who is not None
    note(ctx, "ordered")
    return f"{ctx.request_state} {json.dumps(who.content)}"


@server.tool(structured_output=False)
async def visit(ctx: Context) -> str | InputRequiredResult:
    """Have a person open an address."""
    if (answer := said(ctx, "page")) is None:
        return ask(page=ElicitRequest(params=ElicitRequestURLParams(message="Sign in.", url="https://example.com/in")))
    return answer.action


@server.tool(structured_output=False)
async def later(ctx: Context) -> str | InputRequiredResult:
    """Have the call made again twice, and ask no one."""
    turns = int(ctx.request_state or "0")
    return "now" if turns == 2 else ask(str(turns + 1))


@server.tool(structured_output=False)
async def declared(ctx: Context) -> str:
    """Return what the client declares."""
    found = ctx.request_context.session.client_capabilities
    assert found is not None
    return ", ".join(found.model_dump(by_alias=True, exclude_none=True))


@server.tool(structured_output=False)
async def nag(ctx: Context) -> str | InputRequiredResult:
    """Ask without end."""
    return ask(more=form("More?"))


@server.tool(structured_output=False)
async def think(ctx: Context) -> str | InputRequiredResult:
    """Ask the model of the client."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Think."))
    return ask(it=CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=5)))


@server.tool(structured_output=False)
async def look(ctx: Context) -> str | InputRequiredResult:
    """Ask for the folders of the client."""
    return ask(it=ListRootsRequest())


if len(sys.argv) > 2:
    import uvicorn

    config = uvicorn.Config(server.streamable_http_app(stateless_http=True), fd=int(sys.argv[2]), log_level="critical")
    uvicorn.Server(config).run()
else:
    server.run("stdio")
