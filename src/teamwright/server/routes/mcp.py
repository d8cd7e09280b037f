"""`/mcp`: the teams of this server for clients of the Model Context Protocol, over streamable HTTP.

A visitor has to be known and may read; what a single method needs beyond that, the server of the protocol checks.
"""

from __future__ import annotations

from typing import Any, cast

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from pydantic_core import from_json
from starlette.types import Message, Receive, Scope, Send

from teamwright.errors import MissingExtra
from teamwright.server.error_responses import error_response, responses
from teamwright.server.mcp.door import McpDoor
from teamwright.server.state import MAY_READ

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
    """Return the code and the message of what is no request of JSON-RPC; the library would word it for Python alone."""
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
