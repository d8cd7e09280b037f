"""The session of a browser: trades the code of the printed address, or a token, for a cookie."""

from __future__ import annotations

from typing import Self

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from teamwright.server.errors import responses
from teamwright.server.security.access import MAY_READ, Reader, Server, cookie_name, stranger
from teamwright.server.security.sessions import SESSION_SECONDS

router = APIRouter(prefix="/api/session", tags=["session"])


class Credential(BaseModel):
    """What a session begins with: the one-time code in the address that the server prints, or a token."""

    model_config = ConfigDict(extra="forbid")
    code: str | None = Field(default=None, max_length=200)
    token: str | None = Field(default=None, max_length=200)

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.code is None) == (self.token is None):
            raise ValueError("give either a code or a token")
        return self


@router.post("", responses=responses())
async def begin(server: Server, request: Request, given: Credential) -> JSONResponse:
    """Begin a session with a code, which can be used once, or with a token, whose role the session has."""
    sessions = server.sessions
    session = sessions.trade(given.code) if given.code is not None else sessions.sign_in((given.token or "").strip())
    visitor = sessions.visitor(session) if session is not None else None
    if session is None or visitor is None:
        raise stranger(request)
    sessions.end(request.cookies.get(cookie_name(request), ""))  # the browser forgets it now
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
