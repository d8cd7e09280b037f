"""The session of a browser: trades the code of the printed address for a cookie."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

from teamwright.server.errors import responses
from teamwright.server.security.access import MAY_READ, Reader, Server, cookie_name, stranger
from teamwright.server.security.tokens import SESSION_SECONDS

router = APIRouter(prefix="/api/session", tags=["session"])


class OneTimeCode(BaseModel):
    """The one-time code in the address that the server prints."""

    model_config = ConfigDict(extra="forbid")
    code: str


@router.post("", responses=responses())
async def begin(server: Server, request: Request, given: OneTimeCode) -> JSONResponse:
    """Begin a session with a code; it can be used once."""
    session = server.sessions.trade(given.code)
    visitor = server.sessions.visitor(session) if session is not None else None
    if session is None or visitor is None:
        raise stranger(request)
    request.state.visitor = visitor
    response = JSONResponse({"name": visitor.name, "role": visitor.role})
    response.set_cookie(
        cookie_name(request),
        session,
        max_age=int(SESSION_SECONDS),
        httponly=True,
        samesite="strict",
        secure=request.headers.get("origin", "").startswith("https:"),  # the page behind a proxy with TLS
    )
    return response


@router.get("", responses=responses())
async def read(visitor: Reader) -> dict[str, str]:
    """Return who the visitor is."""
    return {"name": visitor.name, "role": visitor.role}


@router.delete("", responses=responses(), dependencies=[MAY_READ])
async def end(server: Server, request: Request) -> JSONResponse:
    """End the session."""
    name = cookie_name(request)
    server.sessions.end(request.cookies.get(name, ""))
    response = JSONResponse({})
    response.delete_cookie(name)
    return response
