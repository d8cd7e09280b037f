"""The address of the MCP server, which is opened at its first request.

The protocol's library must never be imported before: a server that is never asked over MCP pays nothing for it, neither
time at its start nor memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import anyio
from anyio.abc import TaskStatus
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.types import Message, Receive, Scope, Send

from teamwright.errors import MissingExtra
from teamwright.server.error_responses import error_response, responses
from teamwright.server.guard import LARGEST_BODY
from teamwright.server.state import MAY_READ

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

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


router = APIRouter(tags=["mcp"])


class RpcError(BaseModel):
    """What went wrong, with a code of JSON-RPC; in what this server refuses before the protocol, a word."""

    code: int | str
    message: str


class RpcErrorBody(BaseModel):
    """The body of an error of JSON-RPC."""

    error: RpcError


ANSWERED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "a response of JSON-RPC, or a stream of notifications that ends with it",
        "content": {"application/json": {"schema": {"type": "object"}}, "text/event-stream": {}},
    },
    202: {"description": "a notification was taken"},
    400: {"model": RpcErrorBody, "description": "the body is no request of the protocol"},
}
OK, FORBIDDEN = 200, 403
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
"""Codes of JSON-RPC."""


@router.get("/mcp", responses=responses(405), dependencies=[MAY_READ], response_class=Response)
async def open_stream() -> Response:
    """Refuse a stream besides requests: this server sends nothing that no request has asked for."""
    response = error_response(405, "method_not_allowed", "send requests of MCP with POST")
    response.headers["Allow"] = "POST"
    return response


@router.post(
    "/mcp",
    responses=responses(404, 405, 406, 500, 501) | ANSWERED,
    dependencies=[MAY_READ],
    response_class=Response,
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}, "required": True}},
)
async def call_method(request: Request) -> Response:
    """Answer a request of the Model Context Protocol: list and call teams, and read and steer their runs as tasks."""
    if (wrong := misfit_of_message(body := await request.body())) is not None:
        code, message = wrong
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
        return JSONResponse(error, 400)
    return _Passed(request, body)


def misfit_of_message(body: bytes) -> tuple[int, str] | None:
    """Return the code and the message for a body that is not JSON-RPC; the library would word it for Python alone."""
    try:
        found = from_json(body)
    except ValueError:
        return PARSE_ERROR, "the body is no JSON"
    match found:
        case {"jsonrpc": "2.0", "method": str()}:
            request = cast("dict[str, Any]", found)
            if not isinstance(request.get("params", {}), dict):
                return INVALID_REQUEST, "the params of a request are an object"
            id_ = request.get("id", 0)
            if isinstance(id_, bool) or not isinstance(id_, int | str):
                return INVALID_REQUEST, "the id of a request is a number or a text"
            return None
        case _:
            return INVALID_REQUEST, 'the body is one request of JSON-RPC: {"jsonrpc": "2.0", "id": …, "method": …}'


class _Passed(Response):
    """Lets the server of the protocol answer, with the status of a refusal where a role was too low."""

    def __init__(self, request: Request, body: bytes) -> None:
        super().__init__()
        self._request = request
        self._unread: Message | None = {"type": "http.request", "body": body, "more_body": False}

    async def _receive(self) -> Message:
        """Return the body, which was read before, and then that the client leaves."""
        unread, self._unread = self._unread, None
        return unread or await self._request.receive()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""

        async def sending(message: Message) -> None:
            is_refused = getattr(self._request.state, "refused", False)
            if is_refused and message["type"] == "http.response.start" and message["status"] == OK:
                message["status"] = FORBIDDEN
            await send(message)

        try:
            door = self._request.app.state.mcp
            assert isinstance(door, McpDoor)
            await door.handle(scope, self._receive, sending)
        except MissingExtra as error:
            await error_response(501, "missing_extra", str(error))(scope, receive, send)
